// Knowledge distillation: trains the network to match a teacher's embeddings
// (docs/distillation.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "comm/comm.h"
#include "common/config/config.h"
#include "kernels/owned_tensor.h"
#include "model/networks/backbone.h"

namespace pfc {

/// The loss of a sample with the embedding x, whose teacher's embedding is t, both of D numbers:
///   kCosine: 1 - x . t / (|x| |t|)   kMse: |x - t|^2 / D   kNone: none
/// The loss of a step is the mean over the samples of all workers and micro-batches.
///
/// The head computes the loss of logits. For this, gather() collects the teacher's embeddings, of E
/// numbers each, from all workers.
struct DistillationOptions {
  std::filesystem::path file;  ///< of the teacher, for messages
  DistillEmbeddings kind = DistillEmbeddings::kCosine;
  double weight = 1;                ///< factor of the gradients
  std::int64_t batch = 0;           ///< samples of a worker and micro-batch
  std::int64_t embedding_size = 0;  ///< D
  std::int64_t samples = 0;         ///< samples of a step
  std::int64_t teacher_size = 0;    ///< E
  std::int64_t gathered = 0;        ///< N: samples of all workers in a micro-batch; 0: no logits
};
/// teacher_size: length of the teacher's embeddings.
DistillationOptions distillation_options(const JobConfig& job, int workers,
                                         std::int64_t teacher_size);

/// Returns the type of the teacher's activations, as teacher_precision selects it. `job_type` is
/// the type for the job's own network. "auto" selects bfloat16 if job_type is float32 and the
/// device `has_bf16`, and job_type otherwise. Throws InputError if teacher_precision is bf16 and
/// the device lacks it.
DType teacher_activations(const JobConfig& job, DType job_type, bool has_bf16);

/// Belongs to the training thread.
class Distillation {
 public:
  /// Borrows ops. REQUIRES: the teacher was built for `batch` images, for inference only, with
  /// activations of this type.
  Distillation(Ops& ops, std::unique_ptr<Backbone> teacher, DType activations,
               const DistillationOptions& options);

  /// Bytes of the buffers, without the teacher.
  struct Bytes {
    std::size_t difference = 0, unit = 0, inverse_norms = 0, loss = 0, all = 0;
  };
  static Bytes bytes(const DistillationOptions& options);

  /// Passes the images uint8 [B, H, W, 3] through the teacher, and compares its embeddings with
  /// these, [B, D]. Enqueues.
  void compare(const Tensor& images, const Tensor& embeddings);
  /// Returns the teacher's embeddings of the images of all workers, float32 [N, E]; null without
  /// logits. Collective. Throws CommError.
  Tensor gather(Comm& comm);
  [[nodiscard]] bool compares_embeddings() const {
    return options_.kind != DistillEmbeddings::kNone;
  }
  [[nodiscard]] bool compares_logits() const { return options_.gathered > 0; }
  /// The next three calls REQUIRE compares_embeddings().
  ///
  /// Returns the sum of the losses of the compared samples. Blocks until it is known.
  double loss_sum();
  /// Adds the gradient of the weighted loss of the compared samples. Call once, after loss_sum().
  void add_gradient(const Tensor& d_embeddings);
  /// Returns the loss of a step from each worker's sum over its micro-batches. If it is not finite,
  /// throws InputError with the same text on all workers. Collective. Throws CommError.
  double step_loss(Comm& comm, double sum, std::int64_t step);
  /// Throws the InputError of step_loss() if this loss is not finite. REQUIRES: the loss is the
  /// same on all workers.
  void expect_finite(double loss, std::int64_t step) const;

 private:
  [[nodiscard]] bool cosine() const { return options_.kind == DistillEmbeddings::kCosine; }

  Ops& ops_;
  const std::unique_ptr<Backbone> teacher_;
  const DType activations_;
  const DistillationOptions options_;
  OwnedTensor difference_;     ///< [B, D]: network's minus teacher's; kCosine: of unit vectors;
                               ///< kNone: null
  OwnedTensor unit_;           ///< kCosine: [B, D], embeddings of length 1
  OwnedTensor inverse_norms_;  ///< kCosine: [B]
  OwnedTensor loss_;           ///< [1]
  OwnedTensor all_;            ///< with logits: [N, E]
  Tensor theirs_;              ///< [B, E]: the teacher's embeddings
};

}  // namespace pfc
