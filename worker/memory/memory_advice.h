// Checks whether a job fits into memory, and suggests changes if it does not.
#pragma once

#include <cstdint>
#include <string>

#include "worker/memory/kept_memory.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Memory available to one worker.
struct MemoryThere {
  std::uint64_t bytes = 0;
  std::string where;  ///< for messages: "1/2 of MemAvailable of /proc/meminfo"
};

/// Returns an equal share of this host's free memory for each of its workers, plus what this
/// process already uses. Memory kept by workers from an earlier generation counts as free.
/// REQUIRES: no worker has allocated its buffers yet.
MemoryThere memory_of_this_host(int workers_of_this_host, const KeptMemory& kept = {});

/// Returns the free memory of a worker's GPU, plus the scratch that its Ops already holds.
MemoryThere memory_of_gpu(const Ops& ops);

/// The largest value of each key with which the job fits if the other keys stay the same; 0 if none
/// fits. If the number of images is known, the values leave enough images for a batch of all
/// workers.
struct LargestThatFits {
  std::int64_t num_classes = 0;
  std::int64_t batch_size = 0;
};
LargestThatFits largest_that_fits(const PlannedJob& planned, const PlannedBackbone& backbone,
                                  std::uint64_t available);

/// Returns one line for a job that does not fit: the memory that it needs, the memory available,
/// the largest parts, and which keys to set to which values, or how many workers to use. Each
/// suggestion leaves enough images for a batch of all workers.
std::string advice(const PlannedJob& planned, const PlannedBackbone& backbone,
                   const MemoryThere& there);

/// Returns the smallest number of workers with which the job fits and can train. `available`: the
/// memory of each worker now. On one host (`one_host`), fewer workers share the same memory, so
/// each has more. REQUIRES: the job fits with planned.world_size workers.
int least_workers(const PlannedJob& planned, std::uint64_t available, bool one_host);

/// Returns a line for the log of a job that fits: planned and available memory, and whether
/// training waits while checkpoints are written.
std::string memory_message(const MemoryPlan& plan);

/// Returns the plan of a job that fits. Otherwise throws InputError with advice().
MemoryPlan expect_to_fit(const PlannedJob& planned, const MemoryThere& there);

}  // namespace pfc
