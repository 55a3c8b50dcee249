// Runs work on rank 0 for all workers, for example reading a folder whose contents may differ
// between hosts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/comm.h"

namespace pfc {

/// Runs `work` on rank 0 while the others wait. If it throws InputError or CommError, every worker
/// throws the same error, so that all fail for the same reason. `comm` is a Comm of host memory.
/// Collective. Throws CommError.
void on_rank_zero(Comm& comm, const std::function<void()>& work);

/// Returns rank 0's `text` on all workers. `comm` and errors: as in on_rank_zero(). Collective.
std::string from_rank_zero(Comm& comm, std::string text);
std::int64_t from_rank_zero(Comm& comm, std::int64_t number);

}  // namespace pfc
