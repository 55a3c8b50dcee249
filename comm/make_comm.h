// Chooses the transport of a Comm. No other code does.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "comm/nccl/device_comms.h"
#include "kernels/ops.h"

namespace pfc {

/// A Comm of host memory: Gloo over TCP, or no transport for one worker, whose store may be null.
/// Throws CommError that names the missing ranks when a peer does not connect in time. With peers,
/// this process ignores SIGPIPE afterwards, unless it handles it already.
std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store);

/// The two Comms of a training step, named "step" and "gradients" whatever options.name is: on a
/// CPU from make_host_comm(), on a GPU over NCCL, or without transport for one worker. `ops` and
/// `store` are borrowed. On a GPU both fail together, and the error names the ranks that do not
/// take part. Throws CommError that names the missing ranks, or the two ranks and the network
/// interface that cannot connect.
DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store);

/// Bytes of memory that a Comm of make_host_comm() keeps for parts of sums that it receives. A Comm
/// that only gathers takes none.
std::size_t host_comm_bytes(int world_size);

}  // namespace pfc
