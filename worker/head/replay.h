// Computes one step of the classification layer from a file and writes the results to a file, so
// that a person can examine them or compare them with another program.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/config/config.h"
#include "worker/head/row_health.h"
#include "worker/head/step_file.h"

namespace pfc {

struct ReplayOptions {
  JobConfig job;  ///< margin, sampling and optimizer; lr is that of the step
  std::int64_t step =
      1;            ///< number of the optimizer step, for sampling and AdamW's bias correction
  int workers = 1;  ///< threads of this process, each with its shard of the rows
};

struct ReplayResult {
  double loss = 0;
  RowHealth d_embeddings, centres, momentum, second;  ///< second has no rows for SGD
};

/// Throws InputError when there are fewer rows than workers.
void check_replay(const HeadStepInput& input, const ReplayOptions& options);

/// Writes `loss` [1] and `d_embeddings` [N, D], and the tables after the update: `centres`,
/// `momentum` and for AdamW `second` [R, D]. All are F32. Writes `classes` too where the input has
/// it; then all rows of the input are active. Gradients are multiplied by 1 / gradient_acc, as
/// those of one micro-batch, and the centres move by this micro-batch alone. When the loss is not
/// finite, no table changes and d_embeddings are NaN. Throws InputError as check_replay() does and
/// where the device does not exist here, and StorageError.
ReplayResult replay_head_step(const HeadStepInput& input, const ReplayOptions& options,
                              const std::filesystem::path& out);

}  // namespace pfc
