// The margin softmax over the rows of one worker, streamed over tiles of classes: the N x S logits
// never exist as a whole (design §3.2). Like every op, it enqueues on the Ops' compute stream.
//
// A step: forward() folds this worker's logits into one RowStatistics a sample; the caller gathers
// them from all workers; combine() makes the loss of them; backward() makes each tile again, turns
// it into gradients, and moves those centres and their momentum in place while the tile is in
// cache. Memory beside the table: O(N * (D + tile)) a thread, and what logits_bytes allows: the
// products of as many tiles as fit are kept from forward() to backward().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/config/config.h"
#include "kernels/margin/update_history.h"
#include "kernels/math/row_statistics.h"
#include "kernels/ops.h"

namespace pfc {

struct MarginSoftmaxOptions {
  Margin margin;
  double scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kExact;
  double interclass_filtering_threshold = 0.0;  ///< 0: off
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool bf16_products = false;     ///< operands of the matrix products; sums are float32
  std::int64_t logits_bytes = 0;  ///< for products that are kept instead of made again
  std::uint64_t seed = 0;         ///< of stochastic rounding
};

/// One worker's class centres. Row i is class first_class + i. Views of device memory. float32, or
/// bfloat16: momentum and second alone, or all three; they are then rounded stochastically, as a
/// function of (seed, update, class, element).
///
/// SGD moves every row in every update, those that are not active by momentum and weight decay
/// alone, but touches active ones only: a row is as it was after the `updated`-th update of the
/// history, and catches up when it is next used (kernels/math/missed_updates.h). AdamW is not
/// linear in its state: a row that is not active stays as it is (as with torch.optim.SparseAdam),
/// no update comes into the history, and no row has missed any.
struct CentreTable {
  std::int64_t first_class = 0;
  Tensor weight;        ///< [R, D], not normalised
  Tensor inverse_norm;  ///< [R] float32, of the row as it is kept; every update writes it
  Tensor momentum;      ///< [R, D]: SGD's velocity or AdamW's m
  Tensor second;        ///< [R, D]: AdamW's v; null for SGD
  /// [R], in host memory on every device, as the active classes are: how many updates a row has
  /// seen.
  std::span<std::int32_t> updated;
  UpdateHistory* history = nullptr;
};

/// How the table is kept, by its tensors' types.
CentrePrecision precision_of(const CentreTable& table);

/// A sample whose class is one of the active ones here.
struct Positive {
  std::int64_t index = 0;   ///< into the active classes
  std::int64_t sample = 0;  ///< 0 .. N - 1
};

class MarginSoftmax {
 public:
  virtual ~MarginSoftmax() = default;

  /// Of the whole table: after weights were written from outside.
  virtual void compute_inverse_norms() = 0;

  struct Batch {
    Tensor embeddings;                      ///< [N, D], not normalised; lengths 1e-20 .. 1e+20
    std::span<const std::int64_t> classes;  ///< [S], global, sorted; S may be 0
    std::span<const Positive> positives;    ///< sorted by index; a sample at most once
  };
  /// Of the centres as after all updates so far. statistics: RowStatistics [N] as bytes (kUInt8).
  /// `batch` is kept, borrowed, for backward().
  virtual void forward(const Batch& batch, const Tensor& statistics) = 0;

  /// statistics: [workers, N], in rank order, the same on every worker. Returns the mean loss;
  /// waits.
  virtual double combine(const Tensor& statistics, int workers) = 0;

  /// One optimizer step over centres.
  struct Update {
    double lr = 0.1;
    std::int64_t number = 1;  ///< from 1: AdamW's bias correction
  };
  /// d_embeddings [N, D], overwritten: the gradient of the mean loss through this worker's classes,
  /// times gradient_scale. Moves the active centres by theirs, and adds the update to the history.
  /// Once after each combine().
  virtual void backward(double gradient_scale, const Tensor& d_embeddings,
                        const Update& update) = 0;

  /// The same, but the gradient of active class i is added to gradients[slots[i]] instead of moving
  /// it; gradients is float32 [.., D]. For more than one micro-batch an update.
  virtual void backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                   const Tensor& gradients,
                                   std::span<const std::int64_t> slots) = 0;
  /// Moves centre classes[i] by gradients[slots[i]], and adds the update to the history.
  virtual void update(std::span<const std::int64_t> classes, std::span<const std::int64_t> slots,
                      const Tensor& gradients, const Update& update) = 0;

  /// Brings the rows of these classes (sorted) up to date in the table, as if they were about to be
  /// read by others.
  virtual void settle(std::span<const std::int64_t> classes) = 0;
};

/// The update in the terms of kernels/math/optimizer.h.
SgdOptions sgd_options(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update);

}  // namespace pfc
