// Wraps NCCL calls that may take long, each with a time limit. The communicators are non-blocking.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// Returns the kind of error and NCCL's last message about it, such as "unhandled system error:
/// connect to 10.0.0.2<43211> failed".
std::string nccl_error_text(ncclResult_t result, ncclComm_t comm);

/// Returns the result of the current call; ncclInProgress until it finishes.
ncclResult_t nccl_state(ncclComm_t comm);

/// Sends block r of `send` to rank r, and receives one block from each rank, as one group. `bytes`:
/// size of a block. Returns the same results as NCCL's own collectives.
ncclResult_t nccl_all_to_all(const void* send, void* receive, std::size_t bytes, int ranks,
                             ncclComm_t comm, cudaStream_t stream);

/// Waits between two polls: briefly at first, then longer.
class Pause {
 public:
  void operator()();

 private:
  int calls_ = 0;
};

/// Aborts all communicators of one worker on a GPU concurrently, because NCCL can free the memory
/// of a communicator only when no kernel of the others still waits for peers. Returns false if NCCL
/// does not return in time, which is known to happen; a thread then keeps waiting for it.
bool nccl_abort(const std::vector<ncclComm_t>& comms, int gpu, std::chrono::milliseconds patience);

/// Destroys a communicator. REQUIRES: its collectives are all done. Aborts it if the peers do not
/// finish theirs within `patience`.
void nccl_finish(ncclComm_t comm, int gpu, std::chrono::milliseconds patience);

}  // namespace pfc
