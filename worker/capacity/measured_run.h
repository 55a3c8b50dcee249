// Compares a short run of a job with the cost model.
#pragma once

#include <filesystem>

#include "worker/capacity/step_cost.h"

namespace pfc {

/// Reads metrics.jsonl in a run's output folder. Network, batch, workers, classes and precision are
/// taken from the run; the run's other keys must equal those of `planned`. The run's machines and
/// workers per host must be as in `cluster`. Uses the median of each phase after the first steps.
/// Throws InputError that names the file, and the key or what is missing.
Corrections corrections_of_run(const std::filesystem::path& output, const PlannedJob& planned,
                               const ClusterModel& cluster);

}  // namespace pfc
