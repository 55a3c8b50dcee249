// How the compute threads of a worker wait for each other.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace pfc {

/// A variable of the environment, which OpenMP reads when a program starts, and its value. None
/// where a person has chosen (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
std::optional<std::pair<std::string, std::string>> waiting_of_worker_threads();

/// For a program that computes without an agent: starts itself again with that variable, unless it
/// is set. REQUIRES: nothing was printed, and no thread runs yet. Throws DeviceError.
void begin_again_as_workers_wait();

}  // namespace pfc
