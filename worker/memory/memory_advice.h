// What fits into the memory that there is, and what to change where a job does not.
#pragma once

#include <cstdint>
#include <string>

#include "worker/memory/memory_plan.h"

namespace pfc {

/// The memory that one worker may take.
struct MemoryThere {
  std::uint64_t bytes = 0;
  std::string where;  ///< for people: "half of what MemAvailable of /proc/meminfo says"
};

/// This host's, shared evenly by the workers that it will have, and what this process uses already.
/// To be asked before any of them has allocated.
MemoryThere memory_of_this_host(int workers_of_this_host);

/// A worker's own GPU, as its Ops sees it; what this process holds of it already counts as there.
MemoryThere memory_of_gpu(const Ops& ops);

/// The largest value of one key with which the job fits, all else equal; 0: not even the smallest.
struct LargestThatFits {
  std::int64_t num_classes = 0;
  std::int64_t batch_size = 0;
};
LargestThatFits largest_that_fits(const PlannedJob& planned, const PlannedBackbone& backbone,
                                  std::uint64_t available);

/// For a job that does not fit: what is needed, what there is, the largest parts, and what to
/// change to which value. One line.
std::string advice(const PlannedJob& planned, const PlannedBackbone& backbone,
                   const MemoryThere& there);

/// For the log of a job that fits: what is planned of what there is, and how checkpoints are
/// written where that is slower than usual.
std::string memory_message(const MemoryPlan& plan);

/// The plan of a job that fits. Throws InputError with the advice otherwise.
MemoryPlan expect_to_fit(const PlannedJob& planned, const MemoryThere& there);

}  // namespace pfc
