// The classification layer: this worker's rows of the class centres, Partial FC sampling, and the
// margin softmax over all workers (arXiv 2203.15565; design §3.1, §3.2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "kernels/margin/update_history.h"
#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/comm/shard.h"

namespace pfc {

struct HeadOptions {
  std::int64_t classes = 0;
  std::int64_t embedding_size = 512;
  Margin margin;
  double scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kExact;
  double interclass_filtering_threshold = 0.0;
  double sample_rate = 1.0;
  std::uint64_t seed = 0;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  std::int64_t gradient_acc = 1;
  CentrePrecision centre_precision = CentrePrecision::kFp32;
  bool bf16_products = false;  ///< operands of the matrix products; sums are float32
  double logits_memory = 0.1;  ///< of centres and momentum: for logits kept for the backward pass
};

/// What the job says about the head; classes = job.num_classes.
HeadOptions head_options(const JobConfig& job);

/// Sorted global class indices of this worker that take part in a step.
struct ActiveCentres {
  std::int64_t step = 0;
  std::vector<std::int64_t> classes;
};

struct HeadResult {
  double loss = 0;      ///< mean over the N samples of all workers; the same on every worker
  Tensor d_embeddings;  ///< [N, D], this worker's part: the sum over workers is the gradient of
                        ///< loss. Valid until the next run. Null when the loss is not finite.
};

class Head {
 public:
  virtual ~Head() = default;

  /// Active rows for the N labels of all workers: every label of this shard, and every class c with
  /// u(seed, step, c) < sample_rate. Thread-safe: runs beside the forward pass. Throws InputError
  /// when a label is outside 0 .. classes - 1.
  [[nodiscard]] virtual ActiveCentres sample(std::span<const std::int64_t> all_labels,
                                             std::int64_t step) const = 0;

  struct Step {
    Tensor all_embeddings;                     ///< [N, D], not normalised
    std::span<const std::int64_t> all_labels;  ///< [N]
    const ActiveCentres& active;
    double lr = 0.1;
    std::int64_t update = 1;       ///< optimizer step number, from 1 (AdamW's bias correction)
    std::int64_t micro_batch = 0;  ///< 0 .. gradient_acc - 1; centres move after the last
    double gradient_scale = 1.0;   ///< 1 / gradient_acc: multiplies every gradient, not the loss
  };
  /// One collective: row statistics. Updates the active centres in place (SGD: the others too, by
  /// momentum and weight decay, when they are next needed); when the loss is not
  /// finite, leaves them as they are, on every worker, so that the step can be examined.
  virtual HeadResult run(const Step& step) = 0;

  [[nodiscard]] virtual RowRange shard() const = 0;
  /// This shard's rows, [shard().size(), D] float32 or (HeadOptions::centre_precision) bfloat16,
  /// for checkpoints. `second` is AdamW's v, null for SGD. Views of device memory. Rows are as
  /// after the updated-th update of the history (CentreTable); settled ones are as after the last.
  struct State {
    Tensor centres, momentum, second;
    std::span<std::int32_t> updated;  ///< [shard().size()], host memory
    UpdateHistory* history = nullptr;
  };
  [[nodiscard]] virtual State state() = 0;
  /// To be called after state() was written from outside (a checkpoint was loaded).
  virtual void state_changed() = 0;

  /// Brings these rows (sorted) or all of them up to date, for others to read. Not between run()s
  /// of one update. The job may go on, but not to the same bits: bringing a row up to date rounds.
  virtual void settle(std::span<const std::int64_t> classes) = 0;
  virtual void settle_all() = 0;
};

/// Centres start as N(0, 0.01) by the counter-based generator: a function of seed and class.
/// ops and comm are borrowed.
std::unique_ptr<Head> make_head(Ops& ops, Comm& comm, const HeadOptions& options);

}  // namespace pfc
