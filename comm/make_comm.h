// Selects the transport of a Comm. No other code does this.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "comm/nccl/device_comms.h"
#include "kernels/ops.h"

namespace pfc {

/// Returns a Comm for host memory: Gloo over TCP, or no transport for one worker (`store` may then
/// be nullptr). Throws CommError that names the missing ranks when a peer does not connect in
/// time. With peers, this process ignores SIGPIPE afterwards, unless it already has a handler.
std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store);

/// Returns the two Comms of a training step, named "step" and "gradients". options.name is ignored.
/// On a CPU they come from make_host_comm(); on a GPU they use NCCL, or no transport for one
/// worker. `ops` and `store` are borrowed. On a GPU both fail together, and the error names the
/// ranks that do not take part. Throws CommError that names the missing ranks, or the two ranks and
/// the network interface that cannot connect.
DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store);

/// Returns the bytes that a Comm of make_host_comm() uses to receive parts of sums. A Comm that
/// only gathers does not allocate them.
std::size_t host_comm_bytes(int world_size);

}  // namespace pfc
