// Configures how the compute threads of a worker wait for each other.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace pfc {

/// Returns the name and value of the environment variable that sets how long OpenMP's threads spin
/// while they wait. OpenMP reads it when a program starts. Returns nullopt if the user has already
/// chosen (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
std::optional<std::pair<std::string, std::string>> waiting_of_worker_threads();

/// Restarts this program with that variable set, unless it is already set. For a program that
/// computes but was not started by an agent. REQUIRES: nothing has been printed and no other thread
/// runs. Throws DeviceError.
void begin_again_as_workers_wait();

}  // namespace pfc
