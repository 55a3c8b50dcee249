// NCCL's calls that may take long, each with a time limit. The communicators are non-blocking.
#pragma once

#include <nccl.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// "unhandled system error: connect to 10.0.0.2<43211> failed": the kind of error, and the last
/// thing that NCCL has said about it.
std::string nccl_error_text(ncclResult_t result, ncclComm_t comm);

/// The result of the current call; ncclInProgress while it is not finished.
ncclResult_t nccl_state(ncclComm_t comm);

/// Sleeps between two polls: briefly at first, then longer.
class Pause {
 public:
  void operator()();

 private:
  int calls_ = 0;
};

/// Aborts the communicators of one worker on a GPU, all at the same time: NCCL can free the memory
/// of one only when no kernel of another still waits for peers. Returns false when NCCL does not
/// return in time, which is known to happen; a thread then still waits for it.
bool nccl_abort(const std::vector<ncclComm_t>& comms, int gpu, std::chrono::milliseconds patience);

/// Ends a communicator. REQUIRES: its collectives are all done. Aborts it when the peers do not end
/// theirs within the patience.
void nccl_finish(ncclComm_t comm, int gpu, std::chrono::milliseconds patience);

}  // namespace pfc
