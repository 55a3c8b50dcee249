// NCCL's calls that may take long, each with a limit. Communicators are non-blocking.
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

/// What the call that is under way has come to; ncclInProgress while it goes on.
ncclResult_t nccl_state(ncclComm_t comm);

/// Between two looks at something that is under way: soon at first, then at leisure.
class Pause {
 public:
  void operator()();

 private:
  int calls_ = 0;
};

/// Aborts communicators of one worker on a GPU, all at a time: the memory of one can only be freed
/// when no kernel of another still waits for peers. False when NCCL has not come back in time, as
/// it is known to do; a thread then still waits for it.
bool nccl_abort(const std::vector<ncclComm_t>& comms, int gpu, std::chrono::milliseconds patience);

/// Ends a communicator whose collectives are all done. When the peers do not end it as well by the
/// end of the patience, aborts it.
void nccl_finish(ncclComm_t comm, int gpu, std::chrono::milliseconds patience);

}  // namespace pfc
