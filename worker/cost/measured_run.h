// What a short run of a job says of the cost model.
#pragma once

#include <filesystem>

#include "worker/cost/step_cost.h"

namespace pfc {

/// Reads metrics.jsonl of a run's output folder. Network, batch, workers, classes and precision are
/// those of the run; its other keys must be those of `planned`. Its machines are like those of
/// `cluster`, with as many workers a host as there can be. Takes the median of each phase after the
/// first steps. Throws InputError that names the file, and the key or what is missing.
Corrections corrections_of_run(const std::filesystem::path& output, const PlannedJob& planned,
                               const Cluster& cluster);

}  // namespace pfc
