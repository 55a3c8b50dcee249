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
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"

namespace pfc {

namespace {

// A gathered row has the D numbers of an embedding, and one more number: the mean length of the one
// or two embeddings that were added, or this mark if the image could not be decoded.
constexpr float kDamaged = -1.f;

double length(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += double{x} * double{x};
  return std::sqrt(sum);
}

/// Appends the embedding, divided by its length.
template <class Number>
void append_unit(std::span<const float> embedding, std::vector<Number>& to) {
  const double norm = length(embedding);
  for (const float x : embedding)
    to.push_back(static_cast<Number>(norm > 0 ? double{x} / norm : 0));
}

std::size_t floats(std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(float); }

std::int64_t longest_shard(std::int64_t images, int world_size) {
  return shard_of(images, 0, world_size).size();
}

void write_row(const EmbeddedImage& image, std::span<float> row) {
  add_mirrored(image, row.first(row.size() - 1));
  const double lengths = length(image.plain) + length(image.mirrored);
  row.back() =
      image.damage ? kDamaged : static_cast<float>(lengths / (image.mirrored.empty() ? 1 : 2));
}

/// Returns the rows of all images [images, D + 1]. They are the same on every worker.
std::vector<float> embed_all(std::int64_t images, const ReadImage& read, Comm& comm,
                             const EmbedBatch& embed, const EmbedOptions& o) {
  const RowRange mine = shard_of(images, comm.rank(), comm.size());
  const std::int64_t longest = longest_shard(images, comm.size());
  const std::int64_t row = o.embedding_size + 1;

  std::vector<float> own(static_cast<std::size_t>(longest * row));
  const auto read_mine = [&](std::int64_t i, std::span<std::uint8_t> rgb) {
    read(mine.begin + i, rgb);
  };
  embed_images(mine.size(), read_mine, embed, o, [&](std::int64_t i, const EmbeddedImage& image) {
    // A damaged image is not an error here: after the gather, all workers report it (rows_of()).
    write_row(image, std::span(own).subspan(static_cast<std::size_t>(i * row),
                                            static_cast<std::size_t>(row)));
  });
  std::vector<float> gathered(own.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(own.data(), {longest, row}),
                  Tensor(gathered.data(), {longest * comm.size(), row}));

  // The shards of different workers may differ in length by one: close the gaps.
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
      fmt::format("verification set {}: all {} pairs are of {}, so the accuracy would always be 1; "
                  "expected pairs of one person and pairs of two people; remove this set",
                  set.file.string(), set.same.size(), genuine > 0 ? "one person" : "two people"));
}

void check_labels(const RetrievalSet& set) {
  std::vector<std::int64_t> labels = set.labels;
  std::ranges::sort(labels);
  if (std::ranges::adjacent_find(labels) != labels.end()) return;
  throw InputError(
      fmt::format("retrieval set {}: all {} images are of different classes, expected a class with "
                  "several images; remove this set",
                  set.path.string(), labels.size()));
}

std::string where(const VerificationSet& set, std::int64_t image) {
  return fmt::format("verification set {}: image {} (the {} of pair {})", set.file.string(), image,
                     image % 2 == 0 ? "first" : "second", image / 2);
}

std::string where(const RetrievalSet& set, std::int64_t image) {
  return fmt::format("retrieval set {}: {}", set.path.string(), set.dataset->name(image));
}

std::string where(const ClassificationSet& set, std::int64_t image) {
  return fmt::format("val_rec {}: {}", set.path.string(), set.dataset->name(image));
}

std::int64_t images_of(const VerificationSet& set) { return std::ssize(set.images); }
std::int64_t images_of(const LabelledSet& set) { return std::ssize(set.labels); }

ReadImage reader_of(const VerificationSet& set, const EmbedOptions& o) {
  return [&set, size = ImageSize{o.height, o.width}](std::int64_t i, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    decoder.decode(set.images[static_cast<std::size_t>(i)], size, rgb);
  };
}
ReadImage reader_of(const LabelledSet& set, const EmbedOptions& o) {
  return read_images_of(*set.dataset, {o.height, o.width}, set.resize);
}

/// Throws InputError when one of the images is damaged.
template <class Set>
void check_images(const Set& set, RowRange images, const EmbedOptions& o, const Doing& doing) {
  constexpr std::int64_t kTold = 1000;  // images between two progress messages
  const ReadImage read = reader_of(set, o);
  const auto check_image = [&](std::int64_t i) {
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(o.height * o.width * 3));
    try {
      read(images.begin + i, rgb);
    } catch (const DamagedImage& e) {
      throw InputError(where(set, images.begin + i) + ": " + e.what());
    }
    return true;
  };
  ordered_work<bool>(images.size(), o.threads, check_image, [&](std::int64_t i, bool) {
    if (!doing || i % kTold != 0) return;
    doing(fmt::format("checking evaluation set {}: {} of {} images", set.name, i, images.size()));
  });
}

/// Returns the rows of all images [images, D + 1]. Every worker has all rows, so that all workers
/// report the same damaged image.
template <class Set>
std::vector<float> rows_of(const Set& set, Comm& comm, const EmbedBatch& embed,
                           const EmbedOptions& o, double& norm) {
  const std::int64_t images = images_of(set);
  std::vector<float> rows = embed_all(images, reader_of(set, o), comm, embed, o);
  norm = 0;
  for (std::int64_t i = 0; i < images; ++i) {
    const float own = rows[static_cast<std::size_t>((i + 1) * (o.embedding_size + 1) - 1)];
    if (own == kDamaged) check_images(set, {i, i + 1}, o, {});
    norm += double{own} / static_cast<double>(images);
  }
  return rows;
}

}  // namespace

void check_verification_set(const VerificationSet& set, RowRange images,
                            const EmbedOptions& options, const Doing& doing) {
  check_pairs(set);
  check_images(set, images, options, doing);
}

void check_retrieval_set(const RetrievalSet& set, RowRange images, const EmbedOptions& options,
                         const Doing& doing) {
  check_labels(set);
  check_images(set, images, options, doing);
}

void check_classification_set(const ClassificationSet& set, RowRange images,
                              const EmbedOptions& options, const Doing& doing) {
  check_images(set, images, options, doing);
}

VerificationResult evaluate(const VerificationSet& set, Comm& comm, const EmbedBatch& embed,
                            const EmbedOptions& options) {
  const TimePoint start = Clock::now();
  check_pairs(set);
  check(set.images.size() == 2 * set.same.size() && options.flip,
        "evaluate: needs two images per pair, and flip");
  double norm = 0;
  const std::vector<float> rows = rows_of(set, comm, embed, options, norm);

  const auto d = static_cast<std::size_t>(options.embedding_size);
  std::array<std::vector<float>, 2> sides;  // first and second image of each pair: [n, D]
  for (auto& side : sides) side.reserve(set.same.size() * d);
  for (std::size_t image = 0; image < set.images.size(); ++image) {
    append_unit(std::span(rows).subspan(image * (d + 1), d), sides[image % 2]);
  }
  VerificationResult result = verify_pairs(sides[0], sides[1], options.embedding_size, set.same);
  result.name = set.name;
  result.embedding_norm = norm;
  result.seconds = seconds_since(start);
  return result;
}

RetrievalResult evaluate(const RetrievalSet& set, Comm& comm, const EmbedBatch& embed,
                         const EmbedOptions& options) {
  const TimePoint start = Clock::now();
  RetrievalResult result{.name = set.name, .images = images_of(set)};
  LabelledRows labelled{options.embedding_size, {}, set.labels};
  {
    const std::vector<float> rows = rows_of(set, comm, embed, options, result.embedding_norm);
    const auto d = static_cast<std::size_t>(options.embedding_size);
    labelled.rows.reserve(set.labels.size() * d);
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      append_unit(std::span(rows).subspan(i * (d + 1), d), labelled.rows);
    }
  }
  const std::vector<Search> found =
      search_others(labelled, shard_of(result.images, comm.rank(), comm.size()), options.threads);

  // What this worker counts: queries, and for each K the queries with a hit among the first K, and
  // all such hits.
  constexpr std::size_t kRanks = kRecallRanks.size();
  std::array<std::int64_t, 1 + 2 * kRanks> own{std::ranges::count_if(found, &Search::mated)};
  for (const Search& s : found) {
    for (std::size_t k = 0; k < kRanks; ++k) {
      own[1 + k] += s.mated && s.rank <= kRecallRanks[k] ? 1 : 0;
      own[1 + kRanks + k] += s.mates_within[k];
    }
  }
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(own.data(), DType::kInt64, {std::ssize(own)}),
                  Tensor(all.data(), DType::kInt64, {std::ssize(all)}));
  std::array<std::int64_t, own.size()> sums{};
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
  result.queries = sums[0];
  for (std::size_t k = 0; k < kRanks && result.queries > 0; ++k) {
    const auto queries = static_cast<double>(result.queries);
    result.recalls[k] = static_cast<double>(sums[1 + k]) / queries;
    result.precisions[k] = static_cast<double>(sums[1 + kRanks + k]) /
                           (queries * static_cast<double>(kRecallRanks[k]));
  }
  result.seconds = seconds_since(start);
  return result;
}

ClassificationResult evaluate(const ClassificationSet& set, Comm& comm, const EmbedBatch& embed,
                              const EmbedOptions& options, const ClassLayer& layer) {
  const TimePoint start = Clock::now();
  check(!options.flip, "evaluate: mirror images do not take part in a classification");
  ClassificationResult result{.name = set.name, .images = images_of(set)};
  const std::vector<float> rows = rows_of(set, comm, embed, options, result.embedding_norm);
  const EmbeddingRows embeddings{
      .numbers = rows, .dimension = options.embedding_size, .stride = options.embedding_size + 1};
  const auto ranks = ranks_of_labels(
      layer, comm, embeddings, {.first = set.labels, .others = set.other_labels}, options.threads);
  for (std::size_t k = 0; k < kTopRanks.size(); ++k) {
    const auto hits = std::ranges::count_if(ranks, [&](auto rank) { return rank <= kTopRanks[k]; });
    result.top[k] = static_cast<double>(hits) / static_cast<double>(result.images);
  }
  result.seconds = seconds_since(start);
  return result;
}

std::size_t evaluation_bytes(std::int64_t images, int world_size, const EmbedOptions& o) {
  const std::int64_t row = o.embedding_size + 1;
  const std::int64_t longest = longest_shard(images, world_size);
  // For the thresholds of TAR at FAR, and for the pairs' distances, scores and curve.
  const std::size_t figures = 4001 * sizeof(std::int64_t) + static_cast<std::size_t>(images) * 60;
  const std::size_t sides = floats(images * o.embedding_size);
  return floats(longest * row) + floats(longest * world_size * row) + sides + figures +
         embed_images_bytes(o);
}

std::size_t retrieval_bytes(std::int64_t images, int world_size, const EmbedOptions& o) {
  const std::int64_t row = o.embedding_size + 1;
  const std::int64_t longest = longest_shard(images, world_size);
  const std::size_t searched = static_cast<std::size_t>(images * o.embedding_size) * sizeof(double);
  // For the labels, an index of the images by label, and the result of each search.
  const std::size_t figures = static_cast<std::size_t>(images) * 230;
  return floats(longest * world_size * row) + std::max(floats(longest * row), searched) + figures +
         embed_images_bytes(o);
}

std::size_t classification_bytes(std::int64_t images, int world_size, const EmbedOptions& o) {
  const std::int64_t row = o.embedding_size + 1;
  return floats(longest_shard(images, world_size) * (world_size + 1) * row) +
         class_ranks_bytes(images, o.embedding_size, world_size) + embed_images_bytes(o);
}

}  // namespace pfc
