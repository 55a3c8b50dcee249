// Checks whether a job fits into memory, and says what to change where it does not.
#pragma once

#include <cstdint>
#include <string>

#include "worker/memory/kept_memory.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// The memory that one worker may take.
struct MemoryThere {
  std::uint64_t bytes = 0;
  std::string where;  ///< for messages: "1/2 of MemAvailable of /proc/meminfo"
};

/// An equal share of this host's free memory for each of its workers, and what this process uses
/// already. What workers have kept from an earlier generation counts as free. REQUIRES: none of the
/// workers has allocated its buffers yet.
MemoryThere memory_of_this_host(int workers_of_this_host, const KeptMemory& kept = {});

/// The free memory of a worker's GPU, and the scratch that its Ops holds already.
MemoryThere memory_of_gpu(const Ops& ops);

/// The largest value of one key with which the job fits while all other keys stay as they are, and
/// its images, where their number is known, fill a batch of all workers. 0: there is no such value.
struct LargestThatFits {
  std::int64_t num_classes = 0;
  std::int64_t batch_size = 0;
};
LargestThatFits largest_that_fits(const PlannedJob& planned, const PlannedBackbone& backbone,
                                  std::uint64_t available);

/// One line for a job that does not fit: the memory that it needs, what there is, the largest
/// parts, and which keys to set to which values, or how many workers to take. Its images fill a
/// batch of all workers with each of these.
std::string advice(const PlannedJob& planned, const PlannedBackbone& backbone,
                   const MemoryThere& there);

/// The fewest workers with which the job fits and can train. `available`: memory per worker at
/// present; on one host fewer workers share the same host memory. REQUIRES: the job fits with
/// planned.world_size workers.
int least_workers(const PlannedJob& planned, std::uint64_t available, bool one_host);

/// A line for the log of a job that fits: the planned and the available memory, and whether
/// training waits while checkpoints are written.
std::string memory_message(const MemoryPlan& plan);

/// The plan of a job that fits. Throws InputError with advice() where it does not.
MemoryPlan expect_to_fit(const PlannedJob& planned, const MemoryThere& there);

}  // namespace pfc
