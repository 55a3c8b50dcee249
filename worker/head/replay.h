// Computes one step of the classification layer from a file and writes the results to a file, so
// that a person can examine them or compare them with another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/config/config.h"
#include "worker/head/row_health.h"
#include "worker/head/step_file.h"

namespace pfc {

struct ReplayOptions {
  JobConfig job;          ///< margin, sampling and optimizer; lr is that of the step
  std::int64_t step = 1;  ///< number of the job's step, for the sampling
  /// Number of the update, for AdamW's bias correction: the step, less steps that made no update.
  std::int64_t update = 1;
  int workers = 1;  ///< threads of this process, each with its shard of the rows
};

struct ReplayResult {
  std::vector<double> losses;  ///< of each micro-batch; NaN from the first on that is not finite
  double loss = 0;             ///< their mean
  RowHealth d_embeddings, centres, momentum, second;  ///< second has no rows for SGD
};

/// Throws InputError when there are fewer rows than workers.
void check_replay(const HeadStepInput& input, const ReplayOptions& options);

/// Writes `loss` [M] and `d_embeddings` [M * N, D] of the M micro-batches, and the tables after the
/// update: `centres`, `momentum` and for AdamW `second` [R, D]. All are F32. Writes `classes` too
/// where the input has it; then the rows of the input are active, all or those that it says.
/// Gradients are multiplied by 1 / gradient_acc, as those of one micro-batch of so many, and the
/// centres move by the micro-batches of the input. When the loss of one is not finite, no table
/// changes, and its gradients and all after it are NaN. Throws InputError as check_replay() does
/// and where the device does not exist here, and StorageError.
ReplayResult replay_head_step(const HeadStepInput& input, const ReplayOptions& options,
                              const std::filesystem::path& out);

}  // namespace pfc
