// Cores that this process may compute with, and how the workers of a host share them.
#pragma once

#include <filesystem>
#include <string>

namespace pfc {

/// The cores of this process's affinity mask, but no more than the quota of its control groups; at
/// least 1.
int usable_cores();

/// The least quota of this process's control groups (a container's limit, systemd's CPUQuota=), in
/// whole cores, at least 1; 0: there is none. `root` is another folder in tests.
int quota_cores(const std::filesystem::path& root = "/");

/// OMP_NUM_THREADS; 0 where it is not set. Throws InputError if it is not a number or is
/// unreasonably large. Call it before workers are started.
int threads_asked_for();

/// Returns a warning if workers x threads exceeds `cores`: "OMP_NUM_THREADS=64: 2 workers would
/// run 128 threads on 2 cores, ...". Returns "" otherwise, and if `threads` is 1 or 0 (not set).
std::string oversubscription(int threads, int workers, int cores);

/// Returns whether the user has set OMP_NUM_THREADS. Returns false if kShareOfCores is also set,
/// because then pfc-agent has set the number for its workers.
bool threads_are_chosen();
inline constexpr const char* kShareOfCores = "PFC_SHARE_OF_CORES";

/// Compute threads of each of the workers of this host: OMP_NUM_THREADS where a person has set it,
/// as for every OpenMP program; or else the cores that it is bound to, as far as the quota goes (0:
/// it is bound to none); or else an equal share of the usable cores. At least 1.
int threads_of_worker(int workers_of_host, int own_cores = 0);

}  // namespace pfc
