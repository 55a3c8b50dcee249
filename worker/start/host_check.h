// What must be the same on all hosts of a job, compared before training.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "data/dataset.h"
#include "model/evaluation/evaluation_sets.h"

namespace pfc {

/// One thing that must be the same on all hosts.
struct HostFact {
  std::string what;    ///< "/data/train.idx"
  std::string value;   ///< "5822653 images ..."
  std::string remedy;  ///< what a person does where hosts differ
};

/// Of this worker's host: the program's version, the training data, and the verification sets by
/// their sizes. Reads of the .rec what Dataset::briefs() does.
std::vector<HostFact> facts_of_host(const Dataset& dataset, const EvaluationSets& sets);

/// Hosts whose clock differs more from that of rank 0's host are named.
inline constexpr std::chrono::seconds kClockTolerance{5};

using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// Compares the facts of all workers; `hosts` has the name of each worker's host, by rank. Throws
/// InputError, on all workers in the same words, that names each host with other facts than rank 0
/// has, and the first of them. On rank 0 returns a line for each host whose clock is off: nothing
/// depends on it but the times that a person reads. `comm` is of host memory. Collective. Throws
/// CommError.
std::vector<std::string> compare_hosts(Comm& comm, std::span<const std::string> hosts,
                                       const std::vector<HostFact>& facts,
                                       const WallClock& now = std::chrono::system_clock::now);

}  // namespace pfc
