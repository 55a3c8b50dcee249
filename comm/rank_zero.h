// What one worker does for all: looking into a shared folder, for example, which two workers may
// see differently.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/comm.h"

namespace pfc {

/// Runs `work` on rank 0 while the others wait. When it throws an InputError or a CommError, every
/// worker throws one in the same words, so that all fail as one and not because of each other.
/// `comm` is of host memory. Collective. Throws CommError.
void on_rank_zero(Comm& comm, const std::function<void()>& work);

/// Rank 0's text or number, on all workers. `comm` is of host memory. Collective. Throws CommError.
std::string from_rank_zero(Comm& comm, std::string text);
std::int64_t from_rank_zero(Comm& comm, std::int64_t number);

}  // namespace pfc
