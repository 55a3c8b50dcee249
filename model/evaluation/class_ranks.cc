#include "model/evaluation/class_ranks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "common/ordered_work.h"
#include "data/images/vector_clones.h"
#include "kernels/math/margin.h"

namespace pfc {

namespace {

constexpr std::int64_t kBlockRows = 1024;   // number of rows of centres in memory at the same time
constexpr std::int64_t kBlockSamples = 16;  // number of samples that share a pass over these rows
// Bytes that ClassLayer::read() needs for each weight: its two moments, and a copy in the stored
// type.
constexpr std::int64_t kBytesToRead = 10;

/// Returns the inner product. Sums in 16 lanes, so that the compiler can use vectors. Every caller
/// gets the same bits.
PFC_VECTOR_CLONES double row_product(const float* a, const double* b, std::size_t n) {
  std::array<double, 16> lanes{};
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) lanes[k] += double{a[i + k]} * b[i + k];
  }
  for (; i < n; ++i) lanes[0] += double{a[i]} * b[i];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

/// Some of this worker's classes. The length of an embedding does not change the order of its
/// scores, so for cosines only the weights are normalised.
class ClassBlock {
 public:
  ClassBlock(const ClassLayer& layer, std::int64_t dimension)
      : layer_(layer),
        d_(static_cast<std::size_t>(dimension)),
        stored_size_(layer.cosines ? d_ : d_ + 1),
        rows_(static_cast<std::size_t>(layer.sub_centres)) {
    const auto most =
        static_cast<std::size_t>(std::min(most_classes(), layer.classes.size())) * rows_;
    stored_.resize(most * stored_size_);
    weights_.resize(most * d_);
  }

  [[nodiscard]] std::int64_t most_classes() const { return kBlockRows / layer_.sub_centres; }

  void read(RowRange classes) {
    classes_ = classes;
    const std::size_t n = static_cast<std::size_t>(classes.size()) * rows_;
    layer_.read(classes, std::span(stored_).first(n * stored_size_));
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<double> row = std::span(weights_).subspan(i * d_, d_);
      std::copy_n(stored_.begin() + static_cast<std::ptrdiff_t>(i * stored_size_), d_, row.begin());
      if (!layer_.cosines) continue;
      const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
      if (length == 0) continue;
      std::ranges::transform(row, row.begin(), [&](double x) { return x / length; });
    }
  }

  [[nodiscard]] RowRange classes() const { return classes_; }
  [[nodiscard]] double score(const float* embedding, std::int64_t c) const {
    const std::size_t first = static_cast<std::size_t>(c - classes_.begin) * rows_;
    double score = row_score(embedding, first);
    for (std::size_t i = first + 1; i < first + rows_; ++i) {
      const double other = row_score(embedding, i);
      if (replaces(other, score)) score = other;
    }
    return score;
  }

 private:
  [[nodiscard]] double row_score(const float* embedding, std::size_t i) const {
    const double product = row_product(embedding, weights_.data() + i * d_, d_);
    return layer_.cosines ? product : product + double{stored_[i * stored_size_ + d_]};
  }

  const ClassLayer& layer_;
  const std::size_t d_, stored_size_;  // numbers of an embedding, and of a row
  const std::size_t rows_;             // number of rows of each class
  RowRange classes_;
  std::vector<float> stored_;    // [n, stored_size_]
  std::vector<double> weights_;  // [n, D], of length 1 for cosines
};

class ClassRanks {
 public:
  ClassRanks(const ClassLayer& layer, Comm& comm, const EmbeddingRows& embeddings,
             const RankedLabels& labels)
      : layer_(layer),
        comm_(comm),
        embeddings_(embeddings),
        labels_(positions_of(labels.first)),
        others_(positions_of(labels.others)),
        others_each_(others_.size() / labels_.size()),
        block_(layer, embeddings.dimension) {}

  std::vector<std::int64_t> find(int threads) {
    find_targets();
    std::vector<std::int64_t> ranks(labels_.size());
    each_block([&] {
      const auto samples = std::ssize(labels_);
      ordered_work<bool>((samples + kBlockSamples - 1) / kBlockSamples, threads,
                         [&](std::int64_t i) {
                           const std::int64_t begin = i * kBlockSamples;
                           count(begin, std::min(begin + kBlockSamples, samples), ranks);
                           return true;
                         },
                         [](std::int64_t, bool) {});
    });
    const std::vector<std::int64_t> all = gathered(ranks);
    std::ranges::fill(ranks, 1);
    for (std::size_t i = 0; i < all.size(); ++i) ranks[i % ranks.size()] += all[i];
    return ranks;
  }

 private:
  template <class F>
  void each_block(const F& f) {
    const RowRange all = layer_.classes;
    const std::int64_t count = block_.most_classes();
    for (std::int64_t begin = all.begin; begin < all.end; begin += count) {
      block_.read({begin, std::min(begin + count, all.end)});
      f();
    }
  }

  [[nodiscard]] const float* embedding(std::size_t i) const {
    return embeddings_.numbers.data() + i * static_cast<std::size_t>(embeddings_.stride);
  }

  /// Concatenates the vectors of all workers.
  template <class Number>
  std::vector<Number> gathered(std::vector<Number>& own) {
    std::vector<Number> all(own.size() * static_cast<std::size_t>(comm_.size()));
    const auto bytes = [](std::vector<Number>& of) {
      return Tensor(of.data(), DType::kUInt8,
                    {std::ssize(of) * static_cast<std::int64_t>(sizeof(Number))});
    };
    comm_.all_gather(bytes(own), bytes(all));
    return all;
  }

  [[nodiscard]] std::vector<std::int64_t> positions_of(std::span<const std::int64_t> labels) const {
    std::vector<std::int64_t> at(labels.size());
    std::ranges::transform(labels, at.begin(),
                           [this](auto label) { return layer_.positions.position_of(label); });
    return at;
  }

  [[nodiscard]] std::span<const std::int64_t> others_of(std::size_t i) const {
    return std::span(others_).subspan(i * others_each_, others_each_);
  }

  /// Sets the targets' scores. A score is computed by the worker that has the class.
  void find_targets() {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    targets_.assign(labels_.size(), kNone);
    const auto add = [&](std::size_t i, double score) {
      if (!(score <= targets_[i]) && !std::isnan(score)) targets_[i] = score;
    };
    each_block([&] {
      for (std::size_t i = 0; i < labels_.size(); ++i) {
        const auto look_at = [&](std::int64_t label) {
          if (block_.classes().contains(label)) add(i, block_.score(embedding(i), label));
        };
        look_at(labels_[i]);
        std::ranges::for_each(others_of(i), look_at);
      }
    });
    const std::vector<double> all = gathered(targets_);
    for (std::size_t i = 0; i < all.size(); ++i) add(i % targets_.size(), all[i]);
  }

  void count(std::int64_t begin, std::int64_t end, std::vector<std::int64_t>& counts) const {
    for (std::int64_t c = block_.classes().begin; c < block_.classes().end; ++c) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        if (labels_[i] == c || std::ranges::count(others_of(i), c) > 0) continue;
        const bool is_lower = block_.score(embedding(i), c) < targets_[i];
        if (!is_lower) ++counts[i];  // also if one of the two is not a number
      }
    }
  }

  const ClassLayer& layer_;
  Comm& comm_;
  const EmbeddingRows& embeddings_;
  const std::vector<std::int64_t> labels_, others_;  // positions
  const std::size_t others_each_;
  ClassBlock block_;
  std::vector<double> targets_;  // by sample
};

}  // namespace

std::vector<std::int64_t> ranks_of_labels(const ClassLayer& layer, Comm& comm,
                                          const EmbeddingRows& embeddings,
                                          const RankedLabels& labels, int threads) {
  const std::int64_t images = std::ssize(labels.first);
  check(images > 0 && static_cast<std::int64_t>(embeddings.numbers.size()) >=
                          (images - 1) * embeddings.stride + embeddings.dimension,
        "ranks_of_labels: an embedding for each label expected");
  return ClassRanks(layer, comm, embeddings, labels).find(threads);
}

std::size_t class_ranks_bytes(std::int64_t images, std::int64_t dimension, int world_size) {
  const std::int64_t block = kBlockRows * (dimension + 1) * (12 + kBytesToRead);
  return static_cast<std::size_t>(block + images * 8 * (2 + 2 * world_size));
}

}  // namespace pfc
