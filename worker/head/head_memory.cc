#include "worker/head/head_memory.h"

#include <algorithm>
#include <cmath>

#include "common/shard.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"

namespace pfc {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kDouble = sizeof(double);
constexpr std::int64_t kIndex = sizeof(std::int64_t);
constexpr std::int64_t kTileClasses = 192;  // as in kernels/cpu/margin_tile.h

// The step has one set of active rows, the next one is ready, and one is in the making.
constexpr std::int64_t kActiveSets = 3;

std::int64_t active_rows(const HeadMemoryOptions& o, std::int64_t rows) {
  const double sampled = o.head.sample_rate * static_cast<double>(rows);
  return std::min(rows, static_cast<std::int64_t>(std::ceil(sampled)) + o.samples);
}

std::int64_t logits_bytes(const HeadMemoryOptions& o, std::int64_t active, std::int64_t tables) {
  const double budget = o.head.logits_memory * static_cast<double>(tables);
  const double all = static_cast<double>(active) * static_cast<double>(o.samples) * kFloat;
  return static_cast<std::int64_t>(std::min(budget, all));
}

/// What kernels/cpu/margin_softmax.cc keeps for a batch, and margin_tile.cc for each thread.
std::int64_t softmax_bytes(std::int64_t n, std::int64_t d, std::int64_t threads) {
  const auto row = static_cast<std::int64_t>(3 * kFloat + kDouble + sizeof(RowSoftmax) +
                                             sizeof(Angle) + 3 * d * kFloat);
  const std::int64_t thread_row = (kTileClasses + 3 + d) * kFloat + kDouble + kIndex;
  const std::int64_t thread = n * thread_row + 2 * kTileClasses * d * kFloat;
  return n * row + threads * thread;
}

}  // namespace

HeadMemory head_memory(const HeadMemoryOptions& o) {
  const std::int64_t rows = shard_of(o.head.classes, 0, o.world_size).size();
  const std::int64_t active = active_rows(o, rows);
  const std::int64_t n = o.samples;
  const std::int64_t d = o.head.embedding_size;
  const std::int64_t table = rows * d;
  const CentrePrecision precision = o.head.centre_precision;
  const std::int64_t centre_bytes = precision == CentrePrecision::kBf16 ? 2 : kFloat;
  const std::int64_t momentum_bytes = precision == CentrePrecision::kFp32 ? kFloat : 2;
  const bool adamw = o.head.optimizer == OptimizerKind::kAdamW;

  const auto bytes = [](std::int64_t b) { return static_cast<std::uint64_t>(b); };
  HeadMemory m;
  m.centres = bytes(table * centre_bytes);
  m.momentum = bytes(table * momentum_bytes);
  m.second = adamw ? m.momentum : 0;
  m.inverse_norms = bytes(rows * kFloat);
  m.active = bytes(kActiveSets * active * kIndex);
  // Every micro-batch adds the rows of its samples; the sampled ones are those of the first.
  const std::int64_t summed = std::min(rows, active + (o.head.gradient_acc - 1) * n);
  if (o.head.gradient_acc > 1) m.gradients = bytes((summed + summed / 16) * d * kFloat);
  m.logits = bytes(logits_bytes(o, active, table * (centre_bytes + momentum_bytes)));
  m.buffers =
      bytes(softmax_bytes(n, d, o.threads) + n * d * kFloat +  // gradients of the embeddings
            (o.world_size + 1) * n * static_cast<std::int64_t>(sizeof(RowStatistics)));
  return m;
}

}  // namespace pfc
