// One head step from a file and into a file, to be examined or checked against another program.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/config/config.h"
#include "worker/head/row_health.h"
#include "worker/head/step_file.h"

namespace pfc {

struct ReplayOptions {
  JobConfig job;          ///< margin, sampling and optimizer; lr is that of the step
  std::int64_t step = 1;  ///< optimizer step: keys the sampling, counts AdamW's updates
  int workers = 1;        ///< threads of this process, each with its shard of the rows
};

struct ReplayResult {
  double loss = 0;
  RowHealth d_embeddings, centres, momentum, second;  ///< second has no rows for SGD
};

/// Throws InputError when there are fewer rows than workers.
void check_replay(const HeadStepInput& input, const ReplayOptions& options);

/// Writes `loss` [1], `d_embeddings` [N, D] and, after the update, `centres`, `momentum` and for
/// AdamW `second` [R, D], all F32, and `classes` where the input has it; all rows of such an input
/// are active. Gradients are times 1 / gradient_acc, as those of one micro-batch; the centres move
/// by them alone. When the loss is not finite nothing moves, and d_embeddings are NaN. Throws what
/// check_replay() throws, InputError when the device is not here, and StorageError.
ReplayResult replay_head_step(const HeadStepInput& input, const ReplayOptions& options,
                              const std::filesystem::path& out);

}  // namespace pfc
