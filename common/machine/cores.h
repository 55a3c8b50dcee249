// Counts the cores that this process may use, and divides them between the workers of a host.
#pragma once

#include <filesystem>
#include <string>

namespace pfc {

/// Returns the number of cores in this process's affinity mask, limited by the quota of its
/// control groups; at least 1.
int usable_cores();

/// Returns the smallest quota of this process's control groups (a container's limit, systemd's
/// CPUQuota=), in whole cores, at least 1. 0: no quota. Tests set `root`.
int quota_cores(const std::filesystem::path& root = "/");

/// Returns OMP_NUM_THREADS; 0 if it is not set. Throws InputError if it is not a number or is
/// unreasonably large. REQUIRES: called before workers are started.
int threads_asked_for();

/// Returns a warning if workers x threads exceeds `cores`: "OMP_NUM_THREADS=64: 2 workers would
/// run 128 threads on 2 cores, ...". Returns "" otherwise, and if `threads` is 1 or 0 (not set).
std::string oversubscription(int threads, int workers, int cores);

/// Returns whether the user has set OMP_NUM_THREADS. Returns false if kShareOfCores is also set,
/// because then pfc-agent has set the number for its workers.
bool threads_are_chosen();
inline constexpr const char* kShareOfCores = "PFC_SHARE_OF_CORES";

/// Returns the number of compute threads of each worker of this host, at least 1. This is
/// OMP_NUM_THREADS if a user has set it. Otherwise it is `own_cores`, the number of cores that the
/// worker is bound to, limited by the quota. If the worker is not bound (0), it is an equal share
/// of the usable cores.
int threads_of_worker(int workers_of_host, int own_cores = 0);

}  // namespace pfc
