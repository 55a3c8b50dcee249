// Computes the margin softmax's per-sample values. All memory is on the device. All work is
// enqueued on its compute stream.
#pragma once

#include <cstdint>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/margin_tile.h"
#include "kernels/math/margin.h"
#include "kernels/math/row_statistics.h"

namespace pfc {

/// The samples of a step. There are N samples of dimension D; both numbers are padded to multiples
/// of 8.
struct MarginSamples {
  std::int64_t samples = 0, padded_samples = 0;
  std::int64_t dimension = 0, padded_dimension = 0;  ///< numbers of a row, including the bias
  const float* embeddings = nullptr;                 ///< [N, embedding_size], not normalised
  std::int64_t embedding_size = 0;   ///< dimension, or dimension - 1 in a plain softmax
  double* inverse_length = nullptr;  ///< [N]
  /// [most_targets, N'], where N' is padded N: index of an active class; -1: no target, or a target
  /// on another worker. In all arrays of targets, the element k N' + i is sample i's target number
  /// k. The index k N' + i is the target's slot.
  const std::int32_t* targets = nullptr;
  std::int32_t most_targets = 1;
  const double* target_shares = nullptr;  ///< [N]: MarginSoftmax::Batch; nullptr: 1
  std::int64_t sub_centres = 1;           ///< rows of each class
  bool binary = false;                    ///< MarginSoftmaxOptions::binary
  /// [most_targets, padded N]: active row of the target's nearest centre, from find_angles();
  /// nullptr: each class has one row.
  std::int32_t* target_rows = nullptr;
  const ActiveRange* ranges = nullptr;    ///< [padded N]; nullptr: all classes in each softmax
  const SampleMargin* margins = nullptr;  ///< [N]; nullptr: all have MarginSoftmaxOptions::margin
  /// [most_targets, padded N]: angle between the sample and the target's nearest centre, for the
  /// targets on this worker.
  Angle* angles = nullptr;
  RowSoftmax* softmax = nullptr;      ///< [N]
  float* max = nullptr;               ///< [padded N], largest logit over all workers
  float* smoothing = nullptr;         ///< [padded N]: d loss / d cos -= this; nullptr: 0
  float* factor = nullptr;            ///< [padded N]: d loss / d cos = factor * exp(logit - max)
  float* d_unit = nullptr;            ///< [padded N, padded D]
  float* target_gradients = nullptr;  ///< [most_targets, padded N, padded D]: this worker's targets
  // Set only if a sample may have several targets:
  double* target_mean = nullptr;  ///< [N]: this worker's part of the mean of the targets' logits
  double* all_targets = nullptr;  ///< [N]: log sum exp of the targets' logits, over all workers
};

/// Fills `unit` [padded N, padded D], float32 or bf16, with the embeddings divided by their
/// lengths, or in a plain softmax with the embeddings followed by a 1. The padding is zeros. Also
/// fills inverse_length.
void normalise_embeddings(const CudaDevice& device, const MarginSamples& s, const Tensor& unit);

/// Fills angles and target_rows, computed in float64 from embeddings and centres
/// (kernels/math/margin.h).
void find_angles(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                 const RowList& active);

/// Fills cosines [N] with the cosines of the angles, and 0 for samples whose target is on another
/// worker.
void write_target_cosines(const CudaDevice& device, const MarginSamples& s, float* cosines);

/// Fills statistics [N] of this worker from the slots; running.slots is 0 if no class is active.
void finish_statistics(const CudaDevice& device, const MarginSamples& s,
                       const LogitStatistics& running, const MarginSoftmaxOptions& options,
                       RowStatistics* statistics);

/// Fills logits [summed_numbers(), N]: sums of logits, or of sigmoid(logit) if `binary`.
/// statistics: those of finish_statistics(). classes: number of active classes of this worker.
void sum_logits(const CudaDevice& device, const MarginSamples& s, const LogitStatistics& running,
                const RowStatistics* statistics, std::int64_t classes, float* logits);

/// Overwrites parts[0] of parts [workers, n] with the statistics of all workers' classes, merged in
/// rank order.
void merge_statistics(const CudaDevice& device, RowStatistics* parts, std::int64_t workers,
                      std::int64_t n);

/// Statistics over the classes of all workers.
struct AllStatistics {
  const RowStatistics* rows = nullptr;  ///< [N]
  const float* logits = nullptr;        ///< those of sum_logits(), summed; nullptr: none
};
/// Fills softmax, max, and loss [2]: sums over samples of the loss and of d loss / d threshold (0
/// unless `binary`).
void combine_statistics(const CudaDevice& device, const MarginSamples& s, const AllStatistics& all,
                        double label_smoothing, double* loss);

/// Fills factor and smoothing. Sets d_unit to the contribution of the targets, or zeros for samples
/// without a target here, and target_gradients to the targets' contribution to their centres'
/// gradients. REQUIRES: called before the centres are updated.
void begin_gradients(const CudaDevice& device, const MarginSamples& s, const CudaCentreRows& rows,
                     const RowList& active, const MarginSoftmaxOptions& options,
                     double gradient_scale);

/// Fills d_embeddings [N, embedding_size], the gradient of the embeddings, from d_unit.
void finish_gradients(const CudaDevice& device, const MarginSamples& s,
                      const MarginSoftmaxOptions& options, double gradient_scale,
                      float* d_embeddings);

}  // namespace pfc
