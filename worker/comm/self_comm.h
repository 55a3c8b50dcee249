// The collectives of a world of one worker.
#pragma once

#include <memory>

#include "worker/comm/comm.h"

namespace pfc {

/// Copies where a result lies elsewhere than its input; otherwise does nothing. Never fails.
std::unique_ptr<Comm> make_self_comm();

}  // namespace pfc
