#include "kernels/cuda/margin/margin_plan.h"

#include <algorithm>

#include "kernels/cuda/scratch.h"
#include "kernels/math/bfloat16.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"

namespace pfc {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kDouble = sizeof(double);
constexpr std::int64_t kHalfBytes = sizeof(BFloat16);
constexpr std::int64_t kIndex = sizeof(std::int32_t);
constexpr std::int64_t kPackNumbers = 8;  // 16 bytes of bf16
constexpr std::int64_t kRowGranule = 128;
constexpr std::int64_t kMostSlots = 128;

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Returns the number of rows in a tile. Each row of a tile needs `row_bytes`, not counting the
/// largest cosines of sub-centres.
///
/// A tile that fits into the L2 cache saves memory traffic: without the cache, each row's bytes
/// are written once and read twice. But starting and ending a tile's nine kernels (with sub-centres
/// twelve) takes 45 us (on an H200, measured with tiles of 2048 and 4224 classes, one centre each).
/// So a GPU with fast memory or a small cache uses large tiles (docs/benchmarks/h200.md).
std::int64_t rows_of_gpu_tile(const MarginPlanOptions& o, std::int64_t row_bytes) {
  constexpr double kTileSeconds = 45e-6, kTimesMoved = 3;
  constexpr std::int64_t kLargeTileBytes = std::int64_t{512} << 20;
  const std::int64_t cache = o.gpu.l2_bytes * 3 / 4;
  const auto fitting = [&](std::int64_t bytes) {
    const std::int64_t granule = kRowGranule * o.sub_centres;
    return std::max(bytes / row_bytes / granule * granule, granule);
  };
  const std::int64_t cached = fitting(cache), large = fitting(kLargeTileBytes);
  const auto bandwidth = static_cast<double>(o.gpu.memory_bandwidth);
  const auto start_seconds = [&](std::int64_t tile) {  // per row
    return kTileSeconds / static_cast<double>(tile);
  };
  const bool cache_saves =
      cached * row_bytes <= cache && start_seconds(cached) - start_seconds(large) <
                                         kTimesMoved * static_cast<double>(row_bytes) / bandwidth;
  return std::min(bandwidth == 0 || cache_saves ? cached : large,
                  MarginPlan::padded_rows(std::max(o.classes * o.sub_centres, std::int64_t{1})));
}

class Area {
 public:
  std::int64_t take(std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 256;  // twice a GPU's memory transaction of 128 bytes
    const std::int64_t offset = bytes_;
    bytes_ += rounded_up(bytes, kAlignment);
    return offset;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace

MarginPlan::MarginPlan(const MarginPlanOptions& o)
    : padded_samples(rounded_up(o.samples, kPackNumbers)),
      padded_dimension(rounded_up(o.dimension, kPackNumbers)),
      padded_teacher(rounded_up(o.teacher_dimension, kPackNumbers)) {
  const std::int64_t n = padded_samples;
  const std::int64_t d = padded_dimension;
  const std::int64_t operand = o.bf16_products ? kHalfBytes : kFloatBytes;
  const bool distilled = o.teacher_dimension > 0;
  const std::int64_t factor_bytes = o.bf16_products ? kHalfBytes : distilled ? kFloatBytes : 0;
  const std::int64_t teacher_bytes = distilled ? n * kFloatBytes + padded_teacher * operand : 0;
  tile = rows_of_gpu_tile(
      o, n * (kFloatBytes + factor_bytes) + d * (operand + kFloatBytes) + teacher_bytes);

  // Enough slots for four blocks per multiprocessor; a block has 128 samples and one slot.
  constexpr std::int64_t kBlocksEach = 4, kColumns = 128, kClassesOfBlock = 32;
  const std::int64_t wanted = o.gpu.multiprocessors * kBlocksEach / ((n + kColumns - 1) / kColumns);
  slots = static_cast<int>(
      std::clamp(std::min(wanted, tile / kClassesOfBlock), std::int64_t{1}, kMostSlots));

  Area area;
  unit = area.take(n * d * operand);
  inverse_length = area.take(n * kDouble);
  angles = area.take(o.targets * n * static_cast<std::int64_t>(sizeof(Angle)));
  softmax = area.take(n * static_cast<std::int64_t>(sizeof(RowSoftmax)));
  loss = area.take(3 * kDouble);
  max = area.take(n * kFloatBytes);
  factor = area.take(n * kFloatBytes);
  smoothing = area.take(o.smoothed ? n * kFloatBytes : 0);
  target_rows = area.take(o.sub_centres > 1 ? o.targets * n * kIndex : 0);
  d_unit = area.take(n * d * kFloatBytes);
  target_gradients = area.take(o.targets * n * d * kFloatBytes);
  target_mean = area.take(o.targets > 1 ? n * kDouble : 0);
  all_targets = area.take(o.targets > 1 ? n * kDouble : 0);
  running_max = area.take(slots * n * kFloatBytes);
  running_sum = area.take(slots * n * kDouble);
  running_second = area.take(o.smoothed || o.binary ? slots * n * kDouble : 0);
  rows = area.take(tile * d * operand);
  inverse_norms = area.take(tile * kFloatBytes);
  products = area.take(tile * n * kFloatBytes);
  factors = factor_bytes > 0 ? area.take(tile * n * factor_bytes) : products;
  cosines = area.take(o.sub_centres > 1 ? tile / o.sub_centres * n * kFloatBytes : 0);
  gradients = area.take(tile * d * kFloatBytes);
  if (distilled) {
    teacher_unit = area.take(n * padded_teacher * operand);
    teacher_length = area.take(n * kDouble);
    teacher_rows = area.take(tile * padded_teacher * operand);
    teacher_cosines = area.take(tile * n * kFloatBytes);
    distilled_sums = area.take(kDistilledSums * slots * n * kDouble);
    inverse_sums = area.take(2 * n * kFloatBytes);
  }
  bytes = area.bytes();
}

std::int64_t MarginPlan::padded_rows(std::int64_t rows) { return rounded_up(rows, kRowGranule); }

std::int64_t margin_list_bytes(const MarginPlanOptions& o, std::int64_t active) {
  constexpr std::int64_t kRange = sizeof(ActiveRange), kEach = 16;
  constexpr std::int64_t kMargin = sizeof(SampleMargin);
  const std::int64_t padded = rounded_up(o.samples, kPackNumbers);
  const std::int64_t bytes =
      rounded_up(o.targets * padded * kIndex, kEach) +
      rounded_up(o.targets > 1 ? o.samples * kDouble : 0, kEach) +
      rounded_up(o.ranges ? padded * kRange : 0, kEach) +
      rounded_up(o.sample_margins ? o.samples * kMargin : 0, kEach) +
      rounded_up(o.hard_negatives ? padded * static_cast<std::int64_t>(sizeof(float)) : 0, kEach) +
      2 * rounded_up(o.targets * o.samples * kIndex, kEach) +
      2 * rounded_up(active * o.sub_centres * kIndex, kEach) +
      rounded_up(o.offsets ? active * kFloatBytes : 0, kEach);
  return bytes + bytes / 16;
}

std::int64_t margin_slot_bytes(const MarginPlanOptions& o, std::int64_t classes) {
  const std::int64_t bytes = rounded_up(classes * o.sub_centres * kIndex, 16);
  return bytes + bytes / 16;
}

std::int64_t margin_device_bytes(const MarginPlanOptions& o, std::int64_t active,
                                 std::int64_t logits_bytes) {
  const MarginPlan plan(o);
  const std::int64_t tiles = (active * o.sub_centres + plan.tile - 1) / plan.tile;
  const std::int64_t kept = std::min(tiles + tiles / 16, logits_bytes / plan.kept_tile_bytes());
  const auto taken = [](std::int64_t bytes) {
    return static_cast<std::int64_t>(gpu_allocation(static_cast<std::size_t>(bytes)));
  };
  return taken(plan.bytes) + taken(margin_list_bytes(o, active)) +
         taken(kept * plan.kept_tile_bytes());
}

}  // namespace pfc
