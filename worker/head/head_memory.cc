#include "worker/head/head_memory.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cuda/margin/margin_plan.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"
#include "worker/comm/shard.h"

namespace pfc {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kDouble = sizeof(double);
constexpr std::int64_t kIndex = sizeof(std::int64_t);
constexpr std::int64_t kHalf = 2;  // bfloat16

constexpr std::int64_t kUpdated = sizeof(std::int32_t);

// The step has one set of active rows, the next one is ready, and one is in the making.
constexpr std::int64_t kActiveSets = 3;
constexpr std::int64_t kCatchUp = sizeof(std::uint32_t);  // of the step's: see CatchUpPlan

std::int64_t active_rows(const HeadMemoryOptions& o, std::int64_t rows) {
  const double sampled = o.head.sample_rate * static_cast<double>(rows);
  return std::min(rows, static_cast<std::int64_t>(std::ceil(sampled)) + o.samples);
}

/// For logits that are kept from forward to backward.
std::int64_t budget(const HeadMemoryOptions& o, std::int64_t tables) {
  constexpr double kMost = 1e18;
  return static_cast<std::int64_t>(
      std::min(kMost, o.head.logits_memory * static_cast<double>(tables)));
}

/// As on a large GPU of today: what the tiles take is little beside the rest on any.
MarginPlanOptions gpu_tiles(const HeadMemoryOptions& o) {
  return {.samples = o.samples,
          .dimension = o.head.embedding_size,
          .bf16_products = o.head.bf16_products,
          .l2_bytes = std::int64_t{50} << 20,  // H100
          .multiprocessors = 132};
}

/// Whole tiles of all threads, as many as the budget allows: kernels/cpu/margin/margin_softmax.cc.
std::int64_t logits_bytes(const HeadMemoryOptions& o, std::int64_t active, std::int64_t tables) {
  const std::int64_t classes = kTileClasses * o.threads;
  const std::int64_t tile = classes * o.samples * kFloat;
  return std::min((active + classes - 1) / classes, budget(o, tables) / tile) * tile;
}

/// What margin_softmax.cc and the products keep for a batch, and margin_tile.cc for each thread.
std::int64_t softmax_bytes(const HeadMemoryOptions& o) {
  const std::int64_t n = o.samples;
  const std::int64_t d = o.head.embedding_size;
  const bool halves = o.head.bf16_products;
  const std::int64_t copies = halves ? 3 * kHalf : kFloat;  // of unit, as the products read them
  const auto row =
      static_cast<std::int64_t>(3 * kFloat + kDouble + sizeof(RowSoftmax) + sizeof(Angle)) +
      d * (2 * kFloat + copies);
  const std::int64_t factors = halves ? kTileClasses * kHalf : 0;
  const std::int64_t thread_row = (kTileClasses + 3 + d) * kFloat + factors + kDouble + kIndex;
  const std::int64_t thread = n * thread_row + 2 * kTileClasses * d * kFloat;
  return n * row + o.threads * thread;
}

}  // namespace

HeadMemory head_memory(const HeadMemoryOptions& o) {
  const std::int64_t rows = shard_of(o.head.classes, 0, o.world_size).size();
  const std::int64_t active = active_rows(o, rows);
  const std::int64_t n = o.samples;
  const std::int64_t d = o.head.embedding_size;
  const std::int64_t table = rows * d;
  const CentrePrecision precision = o.head.centre_precision;
  const std::int64_t centre_bytes = precision == CentrePrecision::kBf16 ? kHalf : kFloat;
  const std::int64_t momentum_bytes = precision == CentrePrecision::kFp32 ? kFloat : kHalf;
  const bool adamw = o.head.optimizer == OptimizerKind::kAdamW;

  const std::int64_t tables = table * (centre_bytes + momentum_bytes * (adamw ? 2 : 1));
  const auto bytes = [](std::int64_t b) { return static_cast<std::uint64_t>(b); };
  HeadMemory m;
  m.centres = bytes(table * centre_bytes);
  m.momentum = bytes(table * momentum_bytes);
  m.second = adamw ? m.momentum : 0;
  m.inverse_norms = bytes(rows * kFloat);
  m.updated = bytes(rows * kUpdated);
  m.active = bytes(active * (kActiveSets * kIndex + kCatchUp));
  // Every micro-batch adds the rows of its samples; the sampled ones are those of the first.
  const std::int64_t summed = std::min(rows, active + (o.head.gradient_acc - 1) * n);
  if (o.head.gradient_acc > 1) m.gradients = bytes((summed + summed / 16) * d * kFloat);
  // Gradients of the embeddings, statistics of this worker and of all.
  const std::int64_t exchanged =
      n * d * kFloat + (o.world_size + 1) * n * static_cast<std::int64_t>(sizeof(RowStatistics));
  if (o.gpu) {
    m.active = 0;
    m.buffers = bytes(exchanged + margin_device_bytes(gpu_tiles(o), active, budget(o, tables)));
    return m;
  }
  m.logits = bytes(logits_bytes(o, active, tables));
  m.buffers = bytes(softmax_bytes(o) + exchanged);
  return m;
}

}  // namespace pfc
