// A few head steps with values as input and output, so that one worker, several workers and the
// float64 reference can run the same steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/worker/head/head_devices.h"
#include "worker/head/head.h"

namespace pfc::testing {

struct MicroBatch {
  std::vector<float> embeddings;     ///< [N, D] of all workers
  std::vector<std::int64_t> labels;  ///< [N, labels_per_image]
  std::vector<float> teacher = {};   ///< [N, E]: the teacher's embeddings; empty: no distillation
};

struct HeadJob {
  HeadOptions options;
  std::vector<float> centres;             ///< [C, D]; empty: as the head initialises them
  std::vector<MicroBatch> micro_batches;  ///< gradient_acc of them make one update
  double lr = 0.1;
  TestDevice device = cpu_head_device();
  std::vector<double> lrs = {};                     ///< one per update; empty: always lr
  std::vector<HeadSettings> settings = {};          ///< one per update; empty: as the options say
  std::vector<std::int64_t> updates_left_out = {};  ///< numbers of the skipped updates
  LossState loss_state = {};                        ///< before the first micro-batch
  std::vector<float> teacher_centres = {};          ///< [C, E], of length 1
  ClassNeighbours neighbours = {};                  ///< only with hard_neighbours
  int reads_ahead = 0;   ///< micro-batches whose rows are read before their turn
  bool resumes = false;  ///< before each micro-batch, the head gets its state as from a checkpoint
  [[nodiscard]] bool left_out(std::int64_t update) const {
    return std::ranges::count(updates_left_out, update) > 0;
  }
  [[nodiscard]] double lr_of(std::int64_t update) const {
    return lrs.empty() ? lr : lrs[static_cast<std::size_t>(update - 1)];
  }
  [[nodiscard]] HeadSettings settings_of(std::int64_t update) const {
    if (!settings.empty()) return settings[static_cast<std::size_t>(update - 1)];
    const double rate = options.sample_rate.largest();
    return {.margin = options.margin,
            .sample_rate = rate,
            .drawn_logit = options.sample_correction && rate > 0 ? std::log(1 / rate) : 0};
  }
};

template <typename Real>
struct HeadOutcome {
  std::vector<double> losses;                   ///< one per micro-batch
  std::vector<double> logits_losses;            ///< one per micro-batch
  std::vector<std::vector<Real>> d_embeddings;  ///< [N, D], summed over workers
  std::vector<Real> centres, momentum, second;  ///< [C, D] after the last update, or empty
  std::vector<LossState> loss_states;           ///< of each worker, after the last update
};

/// Runs the job on `world_size` ranks. Each is a thread with its own Ops of job.device, on a CPU
/// with `threads` compute threads.
HeadOutcome<float> run_head(const HeadJob& job, int world_size, int threads = 1);

/// Computes the same from the formulas, in float64 and with everything in memory. With
/// bf16_products the operands of matrix products are rounded to bfloat16 first.
HeadOutcome<double> reference_head(const HeadJob& job);

/// Returns random embeddings of length about 1, and labels.
MicroBatch random_batch(std::int64_t samples, std::int64_t classes, std::int64_t dimension,
                        std::uint64_t seed);
/// Makes steps 1 to 12 with random samples on one worker.
void train_a_little(Ops& ops, Head& head, const HeadOptions& o, std::int64_t samples);
/// Adds a teacher whose embeddings and centres have E numbers.
void add_teacher(HeadJob& job, const LogitDistillation& distillation);
/// Gives each sample 1 to labels_per_image different labels; the first is its present one.
void add_labels(MicroBatch& batch, std::int64_t labels_per_image, std::int64_t classes);
std::vector<float> random_matrix(std::int64_t rows, std::int64_t columns, double deviation,
                                 std::uint64_t seed);

}  // namespace pfc::testing
