// How the compute threads of a worker wait for each other.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace pfc {

/// A variable of the environment, which OpenMP reads when a program starts, and its value. None
/// where a person has chosen (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
std::optional<std::pair<std::string, std::string>> waiting_of_worker_threads();

}  // namespace pfc
