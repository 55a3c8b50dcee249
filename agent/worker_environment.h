// What an agent adds to the environment of the workers that it starts.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pfc {

/// Pairs of name and value for each of `workers` on this host. OMP_NUM_THREADS:
/// threads_of_worker(). GOMP_SPINCOUNT: how long a kernel's thread spins before it sleeps while it
/// waits for work, so that decoding threads, the reducer and other programs get the core; left out
/// where a person has set OMP_WAIT_POLICY or GOMP_SPINCOUNT.
std::vector<std::pair<std::string, std::string>> worker_environment(int workers);

}  // namespace pfc
