#include "worker/head/class_sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "common/error.h"
#include "kernels/cpu/sample.h"

namespace pfc {
namespace {

constexpr std::int64_t kBlocksAtOnce = 1024;  // blocks of four classes; their draws fill 1 KiB

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

std::vector<std::int64_t> labels_inside(RowRange shard, std::span<const std::int64_t> labels) {
  std::vector<std::int64_t> inside;
  for (const std::int64_t label : labels) {
    if (shard.contains(label)) inside.push_back(label);
  }
  std::sort(inside.begin(), inside.end());
  inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
  return inside;
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
      .rate = options.rate, .seed = options.seed, .a = static_cast<std::uint32_t>(step)};
  auto positive = positives.begin();
  const std::int64_t end = (shard.end + 3) / 4;
  std::array<std::uint8_t, kBlocksAtOnce> hits{};
  for (std::int64_t block = shard.begin / 4; block < end; block += kBlocksAtOnce) {
    const std::int64_t count = std::min(kBlocksAtOnce, end - block);
    draw_classes(draw, block, std::span(hits).first(static_cast<std::size_t>(count)));
    for (std::int64_t k = 0; k < count; ++k) {
      for (unsigned bits = hits[static_cast<std::size_t>(k)]; bits != 0; bits &= bits - 1) {
        const std::int64_t c = (block + k) * 4 + std::countr_zero(bits);
        if (!shard.contains(c)) continue;  // the block crosses the shard's border
        while (positive != positives.end() && *positive < c) active.push_back(*positive++);
        if (positive != positives.end() && *positive == c) ++positive;
        active.push_back(c);
      }
    }
  }
  active.insert(active.end(), positive, positives.end());
  return active;
}

double drawn_logit(double rate) { return rate > 0 ? -std::log(rate) : 0; }

std::int64_t expected_active(double rate, std::int64_t rows, std::int64_t labels) {
  const double sampled = rate * static_cast<double>(rows);
  return std::min(rows, static_cast<std::int64_t>(std::ceil(sampled)) + labels);
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
