// Faults of the emulated NCCL, for tests. They hold until clear_nccl_faults().
#pragma once

#include <string>

namespace pfc::simt {

/// The init of no communicator ends, and its last error is `message`.
void nccl_connects_nobody(const std::string& message);
/// Every communicator of this rank fails from now on, as when its network card dies: `message` is
/// NCCL's last error.
void nccl_loses_network(int rank, const std::string& message);
/// Whether an aborted rank's peers hear of it: over sockets they do (at first), within a host they
/// do not.
void nccl_peers_hear_of_aborts(bool hear);
/// ncclCommAbort does not come back until clear_nccl_faults().
void nccl_abort_hangs();
void clear_nccl_faults();

/// Aborts since clear_nccl_faults() that would have waited for a collective of another communicator
/// of the same GPU, which the same call did not abort: on a GPU they could wait for ever.
int nccl_aborts_behind_others();

}  // namespace pfc::simt
