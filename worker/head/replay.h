// One head step from a file and into a file, to be examined or checked against another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/config.h"
#include "kernels/ops.h"
#include "worker/comm/comm.h"

namespace pfc {

/// What a head step reads: a safetensors file with `embeddings` [N, D] F32, `labels` [N] I64,
/// `centres` [C, D] F32 and, where they are not zeros, `momentum` [C, D] F32 (SGD's velocity or
/// AdamW's m) and `second` [C, D] F32 (AdamW's v).
struct HeadStepInput {
  std::int64_t samples = 0, classes = 0, dimension = 0;
  std::vector<float> embeddings;
  std::vector<std::int64_t> labels;
  std::vector<float> centres;
  std::vector<float> momentum, second;  ///< empty: zeros
};

/// Throws InputError that names file and tensor, with the shape found and expected.
HeadStepInput read_head_step(const std::filesystem::path& path);

/// What it gives: written as `loss` [1], `d_embeddings` [N, D], `centres`, `momentum` and, for
/// AdamW, `second` [C, D] after the update, all F32.
struct HeadStepOutput {
  double loss = 0;
  std::vector<float> d_embeddings, centres, momentum, second;
};

/// Memory for the output of all workers.
HeadStepOutput make_head_step_output(const HeadStepInput& input, const JobConfig& job);
void write_head_step(const std::filesystem::path& path, const HeadStepInput& input,
                     const HeadStepOutput& output);

/// Optimizer step `step` (from 1) as this worker does it, with the job's margin, sampling and
/// optimizer options; learning rate job.lr. Writes its own centres into `output`, and rank 0 loss
/// and d_embeddings: the workers of `comm` may be threads that share one output.
void replay_head_step(Ops& ops, Comm& comm, const JobConfig& job, std::int64_t step,
                      const HeadStepInput& input, HeadStepOutput& output);

}  // namespace pfc
