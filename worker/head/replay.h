// Computes one step of the classification layer from a file and writes the results to a file, so
// that a user can examine them or compare them with another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/config/config.h"
#include "worker/head/row_health.h"
#include "worker/head/step_file.h"

namespace pfc {

struct ReplayOptions {
  JobConfig job;          ///< gives margin, sampling and optimizer; lr is that of the step
  std::int64_t step = 1;  ///< step of the job; selects the sampled classes
  /// Number of the update, for AdamW's bias correction: the step minus steps without update.
  std::int64_t update = 1;
  int workers = 1;  ///< threads of this process; each has a shard of the rows
};

struct ReplayResult {
  std::vector<double> losses;  ///< loss of each micro-batch; NaN from the first non-finite one on
  double loss = 0;             ///< their mean
  RowHealth d_embeddings, centres;
  RowHealth momentum, second;  ///< no rows if the optimizer has none
};

/// Throws InputError if there are fewer rows than workers.
void check_replay(const HeadStepInput& input, const ReplayOptions& options);

/// Writes `loss` [M] and `d_embeddings` [M * N, D] of the M micro-batches, and the tables after
/// the update: `centres`, `momentum` (unless it is 0) and for AdamW `second` [R, D]. All are F32.
/// If the input has `classes`, writes that too; then the active rows are all rows, or those that
/// `active` marks. Gradients are multiplied by 1 / gradient_acc, even if the input has fewer
/// micro-batches; the centres are updated with the sum over the micro-batches of the input. If the
/// loss of one is not finite, no table changes, and its gradients and all later ones are NaN.
/// Throws as check_replay() does, InputError if this machine does not have the device, and
/// StorageError.
ReplayResult replay_head_step(const HeadStepInput& input, const ReplayOptions& options,
                              const std::filesystem::path& out);

}  // namespace pfc
