// Compares what must be equal on all hosts of a job, before training.
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

/// One value that must be equal on all hosts.
struct HostFact {
  std::string what;    ///< "/data/train.idx"
  std::string value;   ///< "5822653 images ..."
  std::string remedy;  ///< what to do if hosts differ
};

/// Returns the facts of this worker's host: the program's version, the training data, and the sizes
/// of the evaluation sets. Reads as little of the .rec file as Dataset::briefs() does.
std::vector<HostFact> facts_of_host(const Dataset& dataset, const EvaluationSets& sets);

/// Hosts whose clock differs from the clock of rank 0's host by more than this are reported.
inline constexpr std::chrono::seconds kClockTolerance{5};

using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// Compares the facts of all workers. `hosts`: name of each worker's host, by rank. If hosts
/// differ, throws InputError with the same text on all workers. The text names each host that
/// differs from rank 0's host, and the first difference. On rank 0, returns a line for each host
/// whose clock differs too much, which affects only displayed times. `comm` is for host memory.
/// Collective. Throws CommError.
std::vector<std::string> compare_hosts(Comm& comm, std::span<const std::string> hosts,
                                       const std::vector<HostFact>& facts,
                                       const WallClock& now = std::chrono::system_clock::now);

}  // namespace pfc
