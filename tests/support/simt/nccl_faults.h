// Faults of the emulated NCCL, for tests. They hold until clear_nccl_faults().
#pragma once

#include <string>

namespace pfc::simt {

/// From now on, the initialisation of a communicator never completes, and its last error is
/// `message`.
void nccl_connects_nobody(const std::string& message);
/// From now on, every communicator of this rank fails, as when its network card fails. NCCL's last
/// error is `message`.
void nccl_loses_network(int rank, const std::string& message);
/// Whether the peers of a rank that aborts get an error: with real NCCL they do over sockets, but
/// not within a host. True at first.
void nccl_peers_hear_of_aborts(bool hear);
/// From now on, ncclCommAbort() does not return until clear_nccl_faults().
void nccl_abort_hangs();
void clear_nccl_faults();

/// The number of aborts since clear_nccl_faults() that would have waited for a collective of
/// another communicator on the same GPU. On a real GPU, such an abort could wait forever.
int nccl_aborts_behind_others();

}  // namespace pfc::simt
