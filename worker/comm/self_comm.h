// The collectives of a world of one worker.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"

namespace pfc {

/// Copies where a result lies elsewhere than its input; otherwise does nothing. Never fails. ops:
/// copies on a device, in its compute stream (borrowed); null: host memory.
std::unique_ptr<Comm> make_self_comm(Ops* ops = nullptr);

}  // namespace pfc
