// Faults of the emulated NCCL. They last until clear_nccl_faults().
#pragma once

#include <string>

namespace pfc::simt {

/// Initialisation of communicators never completes; their last error is `message`.
void nccl_connects_nobody(const std::string& message);
/// Every communicator of this rank fails, as if its network card failed; the last error is
/// `message`.
void nccl_loses_network(int rank, const std::string& message);
/// Sets whether the peers of an aborting rank get an error. With real NCCL they do over sockets,
/// but not within a host. Initially true.
void nccl_peers_hear_of_aborts(bool hear);
/// ncclCommAbort() does not return until clear_nccl_faults().
void nccl_abort_hangs();
void clear_nccl_faults();

/// Returns the number of aborts since clear_nccl_faults() that would have waited for a collective
/// of another communicator on the same GPU. On a real GPU they could wait forever.
int nccl_aborts_behind_others();

}  // namespace pfc::simt
