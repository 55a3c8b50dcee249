#include "worker/head/sampling/class_sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string>
#include <unordered_set>

#include "common/error.h"
#include "kernels/cpu/sample.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

void check_labels(const SampleOptions& o, std::span<const std::int64_t> labels) {
  const auto per_image = static_cast<std::size_t>(o.labels_per_image);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < o.classes) continue;
    if (labels[i] == -1 && i % per_image > 0) continue;  // the image has fewer labels
    throw InputError("label " + std::to_string(labels[i]) + " of sample " +
                     std::to_string(i / per_image) + " of the batch is outside 0 .. " +
                     std::to_string(o.classes - 1) + " (" + std::to_string(o.classes) +
                     " classes): check num_classes and the data set");
  }
}

/// The largest part of the drawn classes that neighbours replace. The rest keeps every class in
/// use.
constexpr double kHardPart = 0.5;

std::vector<std::int64_t> labels_inside(RowRange shard, std::span<const std::int64_t> labels) {
  std::vector<std::int64_t> inside;
  for (const std::int64_t label : labels) {
    if (shard.contains(label)) inside.push_back(label);
  }
  std::sort(inside.begin(), inside.end());
  inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
  return inside;
}

/// Draws blocks of classes from a part of the shard, sorted.
class DrawnBlocks {
 public:
  /// Draws from the first blocks of `from`, at most 4096. end() is then the end of the part.
  void make(const ClassDraw& draw, RowRange from) {
    const std::int64_t first = from.begin / 4;
    end_ = std::min(from.end, (first + kFours) * 4);
    const auto fours = static_cast<std::size_t>((end_ + 3) / 4 - first);
    draw_classes(draw, first, std::span(hits_).first(fours));
    // The part may begin or end within four blocks that share random words.
    hits_[0] &= static_cast<std::uint8_t>(0xfu << (from.begin - 4 * first));
    hits_[fours - 1] &= static_cast<std::uint8_t>(0xfu >> (-end_ & 3));
    std::fill(hits_.begin() + static_cast<std::ptrdiff_t>(fours), hits_.end(), std::uint8_t{0});
    count_ = 0;
    for (std::size_t four = 0; four < fours; four += kWord) {
      std::uint64_t bits = 0;  // of eight fours, which have a byte each
      std::memcpy(&bits, hits_.data() + four, kWord);
      const std::int64_t b = (first + static_cast<std::int64_t>(four)) * 4;
      for (; bits != 0; bits &= bits - 1) {
        const std::int64_t bit = std::countr_zero(bits);
        blocks_[count_++] = b + bit / 8 * 4 + bit % 8;
      }
    }
  }
  [[nodiscard]] std::span<const std::int64_t> blocks() const {
    return std::span(blocks_).first(count_);
  }
  [[nodiscard]] std::int64_t end() const { return end_; }

 private:
  static constexpr std::int64_t kFours = 1024;  // their draws fill 1 KiB
  static constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::array<std::uint8_t, kFours> hits_{};
  std::array<std::int64_t, 4 * kFours> blocks_{};
  std::size_t count_ = 0;
  std::int64_t end_ = 0;
};

/// Returns the classes of the blocks, those below `end`. The result may use `storage`.
std::span<const std::int64_t> classes_of(std::span<const std::int64_t> blocks, std::int64_t unit,
                                         std::int64_t end, std::vector<std::int64_t>& storage) {
  if (unit == 1) return blocks;
  storage.clear();
  for (const std::int64_t block : blocks) {
    const std::int64_t end_of_block = std::min((block + 1) * unit, end);
    for (std::int64_t c = block * unit; c < end_of_block; ++c) storage.push_back(c);
  }
  return storage;
}

}  // namespace

std::vector<std::int64_t> sample_classes(const SampleOptions& options, RowRange shard,
                                         std::span<const std::int64_t> labels, std::int64_t step) {
  check_labels(options, labels);
  if (options.rate >= 1) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(shard.size()));
    std::iota(all.begin(), all.end(), shard.begin);
    return all;
  }
  std::vector<std::int64_t> positives = labels_inside(shard, labels);
  if (options.rate <= 0) return positives;

  std::vector<std::int64_t> active;
  active.reserve(positives.size() +
                 static_cast<std::size_t>(1.02 * options.rate * static_cast<double>(shard.size())));
  const ClassDraw draw{
      .rate = options.rate, .seed = options.seed, .step = step, .hold = options.hold};
  const std::int64_t unit = options.unit;
  check(shard.begin % unit == 0 && (shard.end % unit == 0 || shard.end == options.classes),
        "sample_classes: the shard divides a block");
  const RowRange blocks{shard.begin / unit, blocks_of(shard.end, unit)};
  DrawnBlocks drawn;
  std::vector<std::int64_t> storage;
  auto positive = positives.begin();
  for (std::int64_t begin = blocks.begin; begin < blocks.end; begin = drawn.end()) {
    drawn.make(draw, {begin, blocks.end});
    const auto classes = classes_of(drawn.blocks(), unit, shard.end, storage);
    const auto until = std::lower_bound(positive, positives.end(), drawn.end() * unit);
    if (positive == until) {
      active.insert(active.end(), classes.begin(), classes.end());
    } else {
      std::ranges::set_union(classes, std::span(positive, until), std::back_inserter(active));
    }
    positive = until;
  }
  return active;
}

CertainClasses add_neighbours(const SampleOptions& options, const ClassNeighbours& neighbours,
                              std::span<const std::int64_t> labels, std::int64_t step) {
  check_labels(options, labels);
  CertainClasses certain{.classes = labels_inside({0, options.classes}, labels),
                         .rate = options.rate};
  std::vector<std::int64_t> distinct = certain.classes;
  const std::int64_t others = options.classes - std::ssize(distinct);
  if (neighbours.table.empty() || options.rate <= 0 || options.rate >= 1 || others == 0 ||
      distinct.empty()) {
    return certain;
  }
  // The last round is cut off. Without this, labels at low positions would always come first.
  const std::uint32_t random =
      random_words(options.seed, Stream::kSamplePhase, static_cast<std::uint32_t>(step), 0).x[0];
  std::ranges::rotate(distinct, distinct.begin() + random % std::ssize(distinct));
  const double drawn = options.rate * static_cast<double>(others);
  const double most = kHardPart * drawn;
  std::unordered_set<std::int64_t> taken(distinct.begin(), distinct.end());
  const auto add_block = [&](std::int64_t block) {
    const std::int64_t begin = block * options.unit;
    const std::int64_t end = std::min(begin + options.unit, options.classes);
    std::vector<std::int64_t> added;
    for (std::int64_t c = begin; c < end; ++c) {
      if (!taken.contains(c)) added.push_back(c);
    }
    const std::int64_t hard = std::ssize(taken) - std::ssize(distinct) + std::ssize(added);
    if (static_cast<double>(hard) > most) return false;
    taken.insert(added.begin(), added.end());
    return true;
  };
  bool room = true;
  for (std::int64_t nth = 0; room && nth < neighbours.degree; ++nth) {
    for (auto label = distinct.begin(); room && label != distinct.end(); ++label) {
      const std::int64_t near = neighbours.of(*label)[static_cast<std::size_t>(nth)];
      if (near >= 0) room = add_block(near / options.unit);
    }
  }
  certain.classes.assign(taken.begin(), taken.end());
  std::ranges::sort(certain.classes);
  const auto hard = static_cast<double>(std::ssize(taken) - std::ssize(distinct));
  certain.rate = (drawn - hard) / (static_cast<double>(others) - hard);
  return certain;
}

double drawn_logit(double rate) { return rate > 0 ? -std::log(rate) : 0; }

std::int64_t expected_active(double rate, std::int64_t rows, std::int64_t labels) {
  const double sampled = rate * static_cast<double>(rows);
  return std::min(rows, static_cast<std::int64_t>(std::ceil(sampled)) + labels);
}

std::int64_t most_neighbours(double rate, std::int64_t classes, std::int64_t near) {
  return std::min(near, static_cast<std::int64_t>(kHardPart * rate * static_cast<double>(classes)));
}

std::vector<Positive> find_positives(RowRange shard, std::span<const std::int64_t> active,
                                     std::span<const std::int64_t> labels,
                                     std::int64_t labels_per_image) {
  std::vector<Positive> positives;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!shard.contains(labels[i])) continue;
    const auto place = std::lower_bound(active.begin(), active.end(), labels[i]);
    check(place != active.end() && *place == labels[i],
          "head: a label of this shard is not among the active classes");
    positives.push_back({place - active.begin(), static_cast<std::int64_t>(i) / labels_per_image});
  }
  std::stable_sort(positives.begin(), positives.end(),
                   [](const Positive& a, const Positive& b) { return a.index < b.index; });
  return positives;
}

}  // namespace pfc
