// Computes the margin and the sample rate of each step.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "worker/head/head.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Returns the settings of a step. Margin and sample rate depend on epochs of planned size
/// (step_plan.h), so a job that continues with another number of workers has the same settings
/// after the same images. An exponential margin rises as in WeSpeaker's MarginScheduler: after a
/// fraction x of the steps between the start and the end epoch, it has covered 1 - (0.001 / (1 +
/// 1e-6))^x of its rise. From the end epoch on, it has its final value. Pure. REQUIRES: step >=
/// plan.first_step().
HeadSettings head_settings(const JobConfig& job, const StepPlan& plan, std::int64_t step);

}  // namespace pfc
