// The margin softmax over the classes of one worker. It processes one tile of classes at a time,
// so the whole N x S matrix of logits never exists (docs/head.md). Like every op, it enqueues its
// work on the Ops' compute stream.
//
// A step has four parts:
// 1. forward() computes this worker's logits and reduces them to one RowStatistics per sample.
// 2. The caller exchanges these statistics between the workers, with merge_parts().
// 3. combine() computes the loss and the softmax from them.
// 4. backward() recomputes each tile of logits and converts it to gradients. It updates the tile's
//    centres and their momentum in place, while the tile is in the cache.
//
// Memory in addition to the table: O(N * (D + tile)) per thread, and up to logits_bytes: the
// products of as many tiles as fit are kept from forward() to backward() instead of being
// recomputed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/config/choices.h"
#include "kernels/margin/logit_distillation.h"
#include "kernels/margin/scaled_rows.h"
#include "kernels/margin/update_history.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"
#include "kernels/ops.h"

namespace pfc {

struct MarginSoftmaxOptions {
  Margin margin;
  double scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kStraightThrough;
  double interclass_filtering_threshold = 0.0;  ///< 0: off
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  bool bf16_products = false;     ///< matrix products read bfloat16; their sums are float32
  std::int64_t logits_bytes = 0;  ///< memory for products that backward() need not recompute
  std::uint64_t seed = 0;         ///< for stochastic rounding
  bool ranges = false;            ///< softmaxes over a part of the classes: Batch::ranges
  /// kPlain: every row ends with a bias, and a 1 is appended to every embedding. A logit is the
  /// product of row and embedding. Below, cosines are then products and lengths are 1.
  TargetForm target_form = TargetForm::kCombined;
  bool offsets = false;         ///< Batch::offsets
  bool sample_margins = false;  ///< Batch::margins replace `margin`
  bool hard_negatives = false;  ///< Batch::hard_above, for CurricularFace
  /// Binary cross-entropy instead of a softmax, for UniFace: row_binary(). combine() then also
  /// computes threshold_gradient(). Excludes label_smoothing and several targets.
  bool binary = false;
  double label_smoothing = 0;
  std::int64_t targets = 1;  ///< most targets of a sample; above 1 excludes sample_margins
  /// K: a class has K centres, and its cosine with an embedding is the largest of its K cosines,
  /// the first of equal ones (sub-centre ArcFace, Deng et al., ECCV 2020). Only that centre gets a
  /// gradient. REQUIRES: 1 to 16, and 1 for kPlain.
  std::int64_t sub_centres = 1;
  /// Adds the loss of a teacher's logits. Excludes kPlain, sub_centres and ranges.
  LogitDistillation distillation = {};
};

/// Returns the row of the tensor [summed_numbers(), N] in which each sample has the mean logit of
/// its targets.
inline std::int64_t mean_row(const MarginSoftmaxOptions& o) {
  return o.label_smoothing > 0 ? 2 : 0;
}
/// Returns the first row of the DistilledSums in the tensor [summed_numbers(), N].
inline std::int64_t distilled_row(const MarginSoftmaxOptions& o) {
  return mean_row(o) + int{o.targets > 1} + int{o.binary};
}
/// Returns how many numbers of each sample the workers sum between forward() and combine():
/// - label_smoothing: 2, the sum of the logits and their number
/// - several targets: 1, the mean of the targets' logits
/// - binary: 1, the sum of sigmoid(logit) over the other classes
/// - distillation: 3, the DistilledSums
inline std::int64_t summed_numbers(const MarginSoftmaxOptions& o) {
  return distilled_row(o) + (o.distillation.on() ? kDistilledSums : 0);
}

/// Returns whether forward() computes a second sum for each sample, over the classes that are not
/// its targets: of the logits (label_smoothing) or of sigmoid(logit) (binary).
inline bool has_second_sum(const MarginSoftmaxOptions& o) {
  return o.label_smoothing > 0 || o.binary;
}

/// One worker's class centres: views of device memory. Row i is class first_class + i, and holds
/// the class's K centres one after another. Weight, momentum and second are float32; or momentum
/// and second, or all three, are bfloat16; or, only for SGD, weight is kInt8 or kFloat8 and
/// momentum is kInt8. Numbers that are not float32 are rounded stochastically, as a function of
/// (seed, update, class, element).
///
/// Every update changes every row: momentum and weight decay also move inactive rows. Only active
/// rows are written immediately. Any other row keeps its state after update number `updated`, and
/// the updates that it has missed are applied when it is next used
/// (kernels/math/missed_updates.h).
struct CentreTable {
  std::int64_t first_class = 0;
  ScaledRows weight;    ///< [R, K D], not normalised; [R, D + 1] with a bias, like the moments
  Tensor inverse_norm;  ///< [R K] float32: 1 / length of a stored centre; every update writes it
  /// [R, K D]: SGD's velocity or AdamW's m; null if MarginSoftmaxOptions::momentum of SGD is 0
  ScaledRows momentum;
  ScaledRows second;  ///< [R, K D]: AdamW's v; null for SGD
  /// [R], in host memory on every device: number of updates of the history that each row has seen.
  std::span<std::int32_t> updated;
  UpdateHistory* history = nullptr;  ///< of updates by the same optimizer
};

/// Return the types of centres and of their momentum. For fp8, too, momentum is int8, because its
/// numbers within a row are of similar size.
DType weight_type(CentrePrecision precision);
DType momentum_type(CentrePrecision precision);
/// Returns the precision that corresponds to the types of the table's tensors.
CentrePrecision precision_of(const CentreTable& table);

/// A sample's target that is an active class of this worker.
struct Positive {
  std::int64_t index = 0;   ///< into the active classes
  std::int64_t sample = 0;  ///< 0 .. N - 1
};

/// A range of the active classes, by index.
struct ActiveRange {
  std::int32_t begin = 0, end = 0;

  friend bool operator==(const ActiveRange&, const ActiveRange&) = default;
};

/// The public calls check shapes and types, with the same messages on every device
/// (margin_softmax.cc), and then make the device's private call, which may rely on them. Errors:
/// wrong shapes or types throw std::logic_error, a failing device throws DeviceError.
class MarginSoftmax {
 public:
  virtual ~MarginSoftmax() = default;

  /// Uses this margin from now on. REQUIRES: not called between forward() and the end of its step.
  void use_margin(const Margin& margin) { options_.margin = margin; }

  /// Sets the teacher's centres of this worker's classes: unit vectors [R, teacher's D], of the
  /// type of the products, borrowed. REQUIRES: MarginSoftmaxOptions::distillation; called before
  /// the first forward().
  void use_teacher(const Tensor& centres);

  /// Computes inverse_norm of the classes first_class + begin to first_class + end - 1. The caller
  /// must call it after writing their weights.
  void compute_inverse_norms(std::int64_t begin, std::int64_t end) {
    run_compute_inverse_norms(begin * options_.sub_centres, end * options_.sub_centres);
  }

  struct Batch {
    /// [N, D], not normalised; lengths 1e-20 to 1e+20. Without the element for a bias.
    Tensor embeddings;
    std::span<const std::int64_t> classes;  ///< [S], active classes: global, sorted; S may be 0
    /// Sorted by index; each sample at most MarginSoftmaxOptions::targets times.
    std::span<const Positive> positives;
    /// [N]: 1 / the number of a sample's targets, those of other workers included. Empty if
    /// MarginSoftmaxOptions::targets is 1.
    std::span<const double> target_shares = {};
    /// [N]: active classes in each sample's softmax; they include its positives. Empty: all.
    /// REQUIRES: MarginSoftmaxOptions::ranges if it is not empty.
    std::span<const ActiveRange> ranges = {};
    /// [S]: added to a class's logit, except for samples whose target it is. Empty: 0.
    /// REQUIRES: MarginSoftmaxOptions::offsets if it is not empty.
    std::span<const float> offsets = {};
    /// [N]: the margin of each sample. Empty without MarginSoftmaxOptions::sample_margins.
    std::span<const SampleMargin> margins = {};
    /// [N]: cosines c of other classes above it count as c (hardness + c). Empty without
    /// MarginSoftmaxOptions::hard_negatives.
    std::span<const float> hard_above = {};
    float hardness = 0;
    float offset = 0;  ///< added to the logit of every class that is not the sample's target
    /// [N, teacher's D], not normalised. Null without MarginSoftmaxOptions::distillation.
    Tensor teacher = {};
  };
  /// Fills cosines [N], float32 of the device: the cosine between embedding i and the centre of
  /// its class if that is one of the batch's positives, otherwise 0. Does not read batch.margins,
  /// which may depend on these cosines. REQUIRES: the next call is forward() with the same batch.
  void find_targets(const Batch& batch, const Tensor& cosines);
  /// Uses the centres after all updates so far. Fills statistics: RowStatistics [N], as bytes
  /// (kUInt8), and logits: this worker's part of float32 [summed_numbers(), N]; null if there are
  /// none. REQUIRES: what `batch` refers to stays valid until backward() has returned.
  void forward(const Batch& batch, const Tensor& statistics, const Tensor& logits = {});

  /// parts: RowStatistics [workers, n] of the same n samples, as bytes, in rank order. Overwrites
  /// parts[0] with the statistics of the classes of all workers.
  void merge_parts(const Tensor& parts);

  /// statistics: RowStatistics [N] of all workers, the same on every worker. logits: those of
  /// forward(), summed over the workers. Returns the mean loss over N. Blocks until it is known.
  double combine(const Tensor& statistics, const Tensor& logits = {});
  /// Returns d loss / d b of the last combine(), where b is UniFace's threshold, which is
  /// subtracted from every logit. REQUIRES: MarginSoftmaxOptions::binary.
  [[nodiscard]] double threshold_gradient() const { return threshold_gradient_; }

  /// Returns the mean loss of the teacher's logits in the last combine(), without its weight. It is
  /// not part of combine()'s result, but its gradients are part of all gradients.
  [[nodiscard]] double logits_loss() const { return logits_loss_; }

  /// Sets cosines[i], of [N], to the cosine between embedding i and the centre of its class, if
  /// that is one of the batch's positives; does not change the others. With several targets: the
  /// sum of cosine * target_share. The cosines are those of the last forward(), rounded to float32.
  /// Blocks until they are known. REQUIRES: the positives of that batch are still valid.
  void target_cosines(std::span<float> cosines);

  /// Parameters of one optimizer step over centres.
  struct Update {
    double lr = 0.1;
    std::int64_t number = 1;  ///< from 1, for AdamW's bias correction
  };
  /// Overwrites d_embeddings [N, D] with gradient_scale times the gradient of the mean loss
  /// through this worker's classes. Updates the active centres with their gradients, and adds the
  /// update to the history. REQUIRES: called once after each combine().
  void backward(double gradient_scale, const Tensor& d_embeddings, const Update& update);

  /// backward() in two halves, for a caller that decides between them whether to update the
  /// centres. The first fills d_embeddings, the second updates the centres. The second needs one
  /// more matrix product for every tile whose products are not kept, and reads the active rows
  /// once more. Skip it to skip the update. REQUIRES: what `batch` refers to stays valid until
  /// move() has returned.
  void backward_embeddings(double gradient_scale, const Tensor& d_embeddings);
  virtual void move(const Update& update) = 0;

  /// Same as backward(), but does not change the centres: adds the gradient of active class i to
  /// gradients[slots[i]]. gradients is float32 [.., K D]. Used when an update has several
  /// micro-batches.
  void backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                           const Tensor& gradients, std::span<const std::int64_t> slots);
  /// Updates centre classes[i] with gradients[slots[i]], and adds the update to the history.
  void update(std::span<const std::int64_t> classes, std::span<const std::int64_t> slots,
              const Tensor& gradients, const Update& update);

  /// Applies all missed updates to the rows of these classes (sorted), so that the table can be
  /// read directly, for example for a checkpoint.
  void settle(std::span<const std::int64_t> classes);

 protected:
  /// Borrows the table's memory.
  MarginSoftmax(const MarginSoftmaxOptions& options, const CentreTable& table);

  MarginSoftmaxOptions options_;
  /// Weight, momentum and second are [R K, D]: a centre is a row. `updated` stays [R].
  const CentreTable table_;
  double threshold_gradient_ = 0;  ///< of the last combine(); 0 unless `binary`
  double logits_loss_ = 0;         ///< of the last combine(); 0 without distillation
  Tensor teacher_;                 ///< [R, teacher's D]; null without distillation

 private:
  /// Returns D, the number of elements of an embedding.
  [[nodiscard]] std::int64_t embedding_size() const;
  /// Returns the number of elements of a class's row: K D, and 1 for a bias.
  [[nodiscard]] std::int64_t centre_size() const {
    return table_.weight.shape[1] * options_.sub_centres;
  }
  void check_batch(const char* op, const Batch& batch) const;
  void check_classes(const char* op, std::span<const std::int64_t> classes) const;
  void check_gradient(const char* op, const Tensor& d_embeddings) const;
  void check_logits(const char* op, const Tensor& logits) const;

  /// begin, end: rows of table_.
  virtual void run_compute_inverse_norms(std::int64_t begin, std::int64_t end) = 0;
  virtual void run_find_targets(const Batch& batch, const Tensor& cosines) = 0;
  virtual void run_forward(const Batch& batch, const Tensor& statistics, const Tensor& logits) = 0;
  virtual void run_merge_parts(const Tensor& parts) = 0;
  virtual double run_combine(const Tensor& statistics, const Tensor& logits) = 0;
  virtual void run_backward(double gradient_scale, const Tensor& d_embeddings,
                            const Update& update) = 0;
  virtual void run_backward_embeddings(double gradient_scale, const Tensor& d_embeddings) = 0;
  virtual void run_backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                       const Tensor& gradients,
                                       std::span<const std::int64_t> slots) = 0;
  virtual void run_update(std::span<const std::int64_t> classes,
                          std::span<const std::int64_t> slots, const Tensor& gradients,
                          const Update& update) = 0;
  virtual void run_settle(std::span<const std::int64_t> classes) = 0;
  virtual void run_target_cosines(std::span<float> cosines) = 0;

  std::int64_t batch_samples_ = 0;  // N of the last forward()
  std::size_t batch_classes_ = 0;   // and its S
};

inline bool is_plain(const MarginSoftmaxOptions& o) { return o.target_form == TargetForm::kPlain; }

/// Returns the margin of a sample of the batch.
inline const Margin& margin_of(const MarginSoftmaxOptions& o, const MarginSoftmax::Batch& batch,
                               std::int64_t sample) {
  return o.sample_margins ? batch.margins[static_cast<std::size_t>(sample)].margin : o.margin;
}

/// Returns the wanted probability of each of a sample's targets, before label smoothing.
inline double target_share(const MarginSoftmax::Batch& batch, std::int64_t sample) {
  return batch.target_shares.empty() ? 1 : batch.target_shares[static_cast<std::size_t>(sample)];
}

/// Returns the update in the form that kernels/math/optimizer.h expects.
SgdOptions sgd_options(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update);
/// Returns the update in the form stored in the history.
PastUpdate past_update(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update);

}  // namespace pfc
