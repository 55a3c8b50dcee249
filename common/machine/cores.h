// Cores that this process may compute with, and how the workers of a host share them.
#pragma once

namespace pfc {

/// Of this process's affinity and its control group's quota (a container's limit); at least 1.
int usable_cores();

/// Compute threads of each of the workers of this host: OMP_NUM_THREADS where a person has set it,
/// as for every OpenMP program; or else the cores that it is bound to, as far as the quota goes (0:
/// it is bound to none); or else an equal share of the usable cores. At least 1.
int threads_of_worker(int workers_of_host, int own_cores = 0);

}  // namespace pfc
