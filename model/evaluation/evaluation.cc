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

void write_row(const EmbeddedImage& image, std::span<float> row) {
  const std::span<float> sum = row.first(row.size() - 1);
  const double norm = add_mirrored(image, sum);
  for (std::size_t k = 0; k < sum.size() && norm > 0; ++k) {
    sum[k] = static_cast<float>(sum[k] / norm);
  }
  row.back() = image.damage
                   ? kDamaged
                   : static_cast<float>((length(image.plain) + length(image.mirrored)) / 2);
}

/// All images' rows [2n, D + 1], the same on every worker.
std::vector<float> embed_all(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                             const EmbedOptions& o) {
  const auto images = static_cast<std::int64_t>(set.images.size());
  const RowRange mine = shard_of(images, comm.rank(), comm.size());
  const std::int64_t longest = longest_shard(images, comm.size());
  const std::int64_t row = o.embedding_size + 1;

  std::vector<float> own(static_cast<std::size_t>(longest * row));
  const auto read = [&](std::int64_t i, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    decoder.decode(set.images[static_cast<std::size_t>(mine.begin + i)], {o.height, o.width}, rgb);
  };
  embed_images(mine.size(), read, embed, o, [&](std::int64_t i, const EmbeddedImage& image) {
    // All workers tell of a damaged one once they have met: see throw_if_damaged.
    write_row(image, std::span(own).subspan(static_cast<std::size_t>(i * row),
                                            static_cast<std::size_t>(row)));
  });
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
void check_image(const VerificationSet& set, std::size_t image, const EmbedOptions& o,
                 ImageDecoder& decoder, std::span<std::uint8_t> rgb) {
  try {
    decoder.decode(set.images[image], {o.height, o.width}, rgb);
  } catch (const DamagedImage& e) {
    throw InputError(fmt::format("verification set {}: image {} (the {} of pair {}): {}",
                                 set.file.string(), image, image % 2 == 0 ? "first" : "second",
                                 image / 2, e.what()));
  }
}

std::vector<std::uint8_t> pixels_of_one_image(const EmbedOptions& o) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(o.height * o.width * 3));
}

/// Every worker knows all images, so that every worker can say what is wrong with the same one.
void throw_if_damaged(const VerificationSet& set, std::size_t image, float mark,
                      const EmbedOptions& o) {
  if (mark != kDamaged) return;
  ImageDecoder decoder;
  std::vector<std::uint8_t> rgb = pixels_of_one_image(o);
  check_image(set, image, o, decoder, rgb);
}

}  // namespace

void check_verification_set(const VerificationSet& set, RowRange images,
                            const EmbedOptions& options, const Doing& doing) {
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
                            const EmbedOptions& options) {
  const TimePoint start = Clock::now();
  check_pairs(set);
  check(set.images.size() == 2 * set.same.size() && options.flip,
        "evaluate: two images a pair, and flip");
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

std::size_t evaluation_bytes(std::int64_t images, int world_size, const EmbedOptions& o) {
  const std::int64_t row = o.embedding_size + 1;
  const std::int64_t longest = longest_shard(images, world_size);
  // Thresholds of TAR at FAR; distances, scores and the curve of the pairs.
  const std::size_t figures = 4001 * sizeof(std::int64_t) + static_cast<std::size_t>(images) * 60;
  const std::size_t sides = floats(images * o.embedding_size);
  return floats(longest * row) + floats(longest * world_size * row) + sides + figures +
         embed_images_bytes(o);
}

}  // namespace pfc
