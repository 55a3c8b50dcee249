#include "model/evaluation/evaluation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "comm/shard.h"
#include "common/clock.h"
#include "common/error.h"
#include "data/augment/flip.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"

namespace pfc {

namespace {

// What stands behind an embedding's D numbers in its gathered row: its length before normalisation,
// or this mark where the image did not decode.
constexpr float kDamaged = -1.f;

double length(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += double{x} * double{x};
  return std::sqrt(sum);
}

std::size_t floats(std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(float); }

std::int64_t longest_shard(std::int64_t images, int world_size) {
  return shard_of(images, 0, world_size).size();
}

/// Embeds one worker's images: rows of D + 1 numbers.
class ShardEmbedder {
 public:
  ShardEmbedder(const VerificationSet& set, const EmbedBatch& embed, const EvaluationOptions& o)
      : set_(set),
        embed_(embed),
        options_(o),
        image_bytes_(static_cast<std::size_t>(o.height * o.width * 3)),
        dimension_(static_cast<std::size_t>(o.embedding_size)),
        pixels_(static_cast<std::size_t>(o.batch) * image_bytes_),
        plain_(static_cast<std::size_t>(o.batch) * dimension_),
        mirrored_(plain_.size()) {}

  /// Images [begin, end), at most a batch, into rows.
  void embed(std::int64_t begin, std::int64_t end, std::span<float> rows) {
    const auto count = static_cast<std::size_t>(end - begin);
    std::fill(pixels_.begin(), pixels_.end(), std::uint8_t{0});
    std::vector<bool> damaged(count);
    for (std::size_t i = 0; i < count; ++i) {
      damaged[i] = !decode(static_cast<std::size_t>(begin) + i,
                           std::span(pixels_).subspan(i * image_bytes_, image_bytes_));
    }
    embed_(pixels_, plain_);
    flip_horizontally(pixels_, options_.width);
    embed_(pixels_, mirrored_);
    for (std::size_t i = 0; i < count; ++i) {
      write_row(i, damaged[i], rows.subspan(i * (dimension_ + 1), dimension_ + 1));
    }
  }

 private:
  bool decode(std::size_t image, std::span<std::uint8_t> rgb) {
    try {
      decoder_.decode(set_.images[image], {options_.height, options_.width}, rgb);
      return true;
    } catch (const DamagedImage&) {
      return false;  // told by all workers once they have met: see throw_if_damaged
    }
  }

  void write_row(std::size_t i, bool damaged, std::span<float> row) const {
    const auto plain = std::span(plain_).subspan(i * dimension_, dimension_);
    const auto mirrored = std::span(mirrored_).subspan(i * dimension_, dimension_);
    for (std::size_t k = 0; k < dimension_; ++k) row[k] = plain[k] + mirrored[k];
    const double norm = length(row.first(dimension_));
    for (std::size_t k = 0; k < dimension_ && norm > 0; ++k) {
      row[k] = static_cast<float>(row[k] / norm);
    }
    row[dimension_] =
        damaged ? kDamaged : static_cast<float>((length(plain) + length(mirrored)) / 2);
  }

  const VerificationSet& set_;
  const EmbedBatch& embed_;
  const EvaluationOptions& options_;
  const std::size_t image_bytes_;
  const std::size_t dimension_;
  std::vector<std::uint8_t> pixels_;  // [batch, H, W, 3]
  std::vector<float> plain_;          // [batch, D]
  std::vector<float> mirrored_;       // [batch, D]
  ImageDecoder decoder_;
};

/// All images' rows [2n, D + 1], the same on every worker.
std::vector<float> embed_all(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                             const EvaluationOptions& o) {
  const auto images = static_cast<std::int64_t>(set.images.size());
  const RowRange mine = shard_of(images, comm.rank(), comm.size());
  const std::int64_t longest = longest_shard(images, comm.size());
  const std::int64_t row = o.embedding_size + 1;

  std::vector<float> own(static_cast<std::size_t>(longest * row));
  ShardEmbedder embedder(set, embed, o);
  for (std::int64_t begin = mine.begin; begin < mine.end; begin += o.batch) {
    const std::int64_t end = std::min(mine.end, begin + o.batch);
    embedder.embed(begin, end,
                   std::span(own).subspan(static_cast<std::size_t>((begin - mine.begin) * row)));
  }
  std::vector<float> gathered(own.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(own.data(), {longest, row}),
                  Tensor(gathered.data(), {longest * comm.size(), row}));

  // Shards differ in length by one: close the gaps.
  auto to = gathered.begin();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto from = gathered.begin() + static_cast<std::ptrdiff_t>(rank * longest * row);
    const std::int64_t count = shard_of(images, rank, comm.size()).size() * row;
    to = std::copy(from, from + static_cast<std::ptrdiff_t>(count), to);
  }
  gathered.erase(to, gathered.end());
  return gathered;
}

void check_pairs(const VerificationSet& set) {
  if (set.same.size() < 2) {
    throw InputError(fmt::format("verification set {}: found {} pairs, expected at least 2",
                                 set.file.string(), set.same.size()));
  }
  const auto genuine = std::ranges::count(set.same, true);
  if (genuine > 0 && genuine < std::ssize(set.same)) return;
  throw InputError(
      fmt::format("verification set {}: all {} pairs are of {}, and the accuracy would always be "
                  "1; expected pairs of both kinds; remove it from val_targets",
                  set.file.string(), set.same.size(), genuine > 0 ? "one person" : "two people"));
}

/// Throws InputError when the image is damaged. rgb [H, W, 3] is overwritten.
void check_image(const VerificationSet& set, std::size_t image, const EvaluationOptions& o,
                 ImageDecoder& decoder, std::span<std::uint8_t> rgb) {
  try {
    decoder.decode(set.images[image], {o.height, o.width}, rgb);
  } catch (const DamagedImage& e) {
    throw InputError(fmt::format("verification set {}: image {} (the {} of pair {}): {}",
                                 set.file.string(), image, image % 2 == 0 ? "first" : "second",
                                 image / 2, e.what()));
  }
}

std::vector<std::uint8_t> pixels_of_one_image(const EvaluationOptions& o) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(o.height * o.width * 3));
}

/// Every worker knows all images, so that every worker can say what is wrong with the same one.
void throw_if_damaged(const VerificationSet& set, std::size_t image, float mark,
                      const EvaluationOptions& o) {
  if (mark != kDamaged) return;
  ImageDecoder decoder;
  std::vector<std::uint8_t> rgb = pixels_of_one_image(o);
  check_image(set, image, o, decoder, rgb);
}

}  // namespace

void check_verification_set(const VerificationSet& set, RowRange images,
                            const EvaluationOptions& options, const Doing& doing) {
  constexpr std::int64_t kTold = 1000;  // images between two words about it
  check_pairs(set);
  ImageDecoder decoder;
  std::vector<std::uint8_t> rgb = pixels_of_one_image(options);
  for (std::int64_t i = images.begin; i < images.end; ++i) {
    if (doing && (i - images.begin) % kTold == 0) {
      doing(fmt::format("checking verification set {}: {} of {} images", set.name, i - images.begin,
                        images.size()));
    }
    check_image(set, static_cast<std::size_t>(i), options, decoder, rgb);
  }
}

VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EvaluationOptions& options) {
  const TimePoint start = Clock::now();
  check_pairs(set);
  check(set.images.size() == 2 * set.same.size(), "evaluate: two images a pair");
  const std::vector<float> rows = embed_all(set, comm, embed, options);

  const auto d = static_cast<std::size_t>(options.embedding_size);
  std::array<std::vector<float>, 2> sides;  // first and second image of each pair: [n, D]
  for (auto& side : sides) side.reserve(set.same.size() * d);
  double norms = 0;
  for (std::size_t image = 0; image < set.images.size(); ++image) {
    const auto row = std::span(rows).subspan(image * (d + 1), d + 1);
    throw_if_damaged(set, image, row[d], options);
    norms += double{row[d]};
    sides[image % 2].insert(sides[image % 2].end(), row.begin(), row.end() - 1);
  }
  VerificationResult result = verify_pairs(sides[0], sides[1], options.embedding_size, set.same);
  result.name = set.name;
  result.embedding_norm = norms / static_cast<double>(set.images.size());
  result.seconds = seconds_since(start);
  return result;
}

std::size_t evaluation_bytes(std::int64_t images, int world_size, const EvaluationOptions& o) {
  const std::int64_t row = o.embedding_size + 1;
  const std::int64_t longest = longest_shard(images, world_size);
  const std::size_t embedder = static_cast<std::size_t>(o.batch * o.height * o.width * 3) +
                               2 * floats(o.batch * o.embedding_size);
  const std::size_t sides = floats(images * o.embedding_size);
  return floats(longest * row) + floats(longest * world_size * row) + sides + embedder;
}

}  // namespace pfc
