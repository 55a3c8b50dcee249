// Divides the margin softmax on a GPU into tiles, and computes the memory needed. Plain arithmetic
// without CUDA, because `pfcctl plan` also runs on machines without CUDA.
#pragma once

#include <cstdint>

#include "common/machine/gpu/gpus.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

struct MarginPlanOptions {
  std::int64_t samples = 0;    ///< N, over all workers
  std::int64_t dimension = 0;  ///< D
  bool bf16_products = false;
  bool ranges = false;                 ///< MarginSoftmaxOptions::ranges
  bool offsets = false;                ///< MarginSoftmaxOptions::offsets
  bool sample_margins = false;         ///< MarginSoftmaxOptions::sample_margins
  bool hard_negatives = false;         ///< MarginSoftmaxOptions::hard_negatives
  bool smoothed = false;               ///< MarginSoftmaxOptions::label_smoothing is above 0
  bool binary = false;                 ///< MarginSoftmaxOptions::binary
  std::int64_t targets = 1;            ///< T: MarginSoftmaxOptions::targets
  std::int64_t sub_centres = 1;        ///< K: rows of each class
  std::int64_t classes = 0;            ///< number of classes in this worker's shard
  std::int64_t teacher_dimension = 0;  ///< size of the teacher's embeddings; 0: no distillation
  GpuSizes gpu;
};

/// Layout of the device memory that the margin softmax needs in addition to the table: offsets in
/// bytes into one area. Samples and dimension are padded to whole packs of 16 bytes, so that
/// matrix products and kernels need no code for a remainder. The padding contains zeros.
///
/// Bytes, with N' and D' the padded sizes, P the bytes of a product's operand (4, or 2 for bf16):
/// - N' D' (P + 4 + 4 T): unit embeddings, their gradients, the targets' gradients.
/// - N' (48 + 40 T + 12 slots): statistics and angles. Label smoothing adds N' (4 + 8 slots),
///   binary cross-entropy 8 N' slots, several targets 16 N', sub-centres 4 T N'.
/// - tile (N' (4 + bf16 ? 2 : 0) + D' (P + 4) + 4): products and gradients of one tile.
///   Sub-centres add tile N' 4 / K: largest cosines.
/// - Distillation adds N' (E' P + 16 + 24 slots), where E' is the padded size of the teacher's
///   embeddings. Each row of a tile takes 4 N' + E' P more; float factors take another 4 N'.
///
/// With bf16 products, N = 1024, D = 512 and 58240 classes or more, on an H100: 543 MB, of which
/// 5 MB are for embeddings.
struct MarginPlan {
  explicit MarginPlan(const MarginPlanOptions& o);

  std::int64_t padded_samples = 0;
  std::int64_t padded_dimension = 0;
  std::int64_t padded_teacher = 0;  ///< E'
  /// Number of rows in a tile (rows_of_gpu_tile() in margin_plan.cc). A multiple of 128, the tile
  /// size of a matrix product on a multiprocessor. Every tile has whole classes.
  std::int64_t tile = 0;
  /// Number of parts into which the classes of a tile are divided for the statistics of the
  /// logits, so that enough blocks run at once.
  int slots = 0;

  std::int64_t unit = 0;            ///< [N', D'] float or bf16
  std::int64_t inverse_length = 0;  ///< [N'] double
  std::int64_t angles = 0;          ///< [T, N'] Angle
  std::int64_t softmax = 0;         ///< [N'] RowSoftmax
  std::int64_t loss = 0;            ///< [3] double: loss, threshold's gradient, distillation's loss
  std::int64_t max = 0, factor = 0;   ///< [N'] float
  std::int64_t smoothing = 0;         ///< [N'] float, if smoothed
  std::int64_t target_rows = 0;       ///< [T, N'] std::int32_t, if K > 1
  std::int64_t d_unit = 0;            ///< [N', D'] float
  std::int64_t target_gradients = 0;  ///< [T, N', D'] float
  std::int64_t target_mean = 0;       ///< [N'] double, if T > 1
  std::int64_t all_targets = 0;       ///< [N'] double, if T > 1
  std::int64_t running_max = 0;       ///< [slots, N'] float
  std::int64_t running_sum = 0;       ///< [slots, N'] double
  std::int64_t running_second = 0;    ///< [slots, N'] double, if smoothed or binary
  std::int64_t rows = 0;              ///< [tile, D'] float or bf16
  std::int64_t inverse_norms = 0;     ///< [tile] float
  std::int64_t products = 0;          ///< [tile, N'] float
  std::int64_t factors = 0;           ///< [tile, N'] bf16; float factors overwrite the products,
                                      ///< but not with distillation
  std::int64_t cosines = 0;           ///< [tile / K, N'] float, if K > 1
  std::int64_t gradients = 0;         ///< [tile, D'] float
  // With distillation:
  std::int64_t teacher_unit = 0;     ///< [N', E'] float or bf16
  std::int64_t teacher_length = 0;   ///< [N'] double: 1 / lengths of the teacher's embeddings
  std::int64_t teacher_rows = 0;     ///< [tile, E'] float or bf16
  std::int64_t teacher_cosines = 0;  ///< [tile, N'] float
  std::int64_t distilled_sums = 0;   ///< [3, slots, N'] double
  std::int64_t inverse_sums = 0;     ///< [2, N'] float
  std::int64_t bytes = 0;            ///< size of the area

  /// Rounds up to a multiple of 128. Gathered rows are padded to it with zeros.
  [[nodiscard]] static std::int64_t padded_rows(std::int64_t rows);
  /// Returns the size of one tile's products, if they are kept from forward() to backward().
  [[nodiscard]] std::int64_t kept_tile_bytes() const {
    return tile * padded_samples * static_cast<std::int64_t>(sizeof(float));
  }
};

/// Returns an upper bound on the size of a step's lists: targets, their shares, ranges, margins,
/// positives and offsets, active rows and their missed updates. The lists need this once on the GPU
/// and twice in page-locked host memory. Every different number of missed updates needs 24 more
/// bytes.
std::int64_t margin_list_bytes(const MarginPlanOptions& o, std::int64_t active);

/// Returns an upper bound on the list of the gradients' rows in MarginSoftmax::update(), which also
/// needs the lists of active rows and of their missed updates.
std::int64_t margin_slot_bytes(const MarginPlanOptions& o, std::int64_t classes);

/// Returns all device memory except the table, for steps with `active` classes. Excludes gradient
/// accumulation, which needs more lists, and sums in the caller's memory.
std::int64_t margin_device_bytes(const MarginPlanOptions& o, std::int64_t active,
                                 std::int64_t logits_bytes);

}  // namespace pfc
