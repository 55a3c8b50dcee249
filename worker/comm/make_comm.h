// The one place that chooses a transport.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/comm/comm_options.h"
#include "worker/comm/key_value_store.h"
#include "worker/comm/nccl/device_comms.h"

namespace pfc {

/// A Comm of host memory: Gloo over TCP, or for one worker none at all (store may then be null).
/// Throws CommError that names the missing ranks when a peer does not connect in time. With peers,
/// SIGPIPE is ignored in this process from then on, unless it is handled already.
std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store);

/// On a CPU as make_host_comm; on a GPU NCCL, or for one worker none at all. `ops` and store are
/// borrowed. The name is given: "step" and "gradients". On a GPU both fail together, and an error
/// names who does not take part. Throws CommError that names the missing ranks, or the pair of
/// ranks and the network interface that cannot connect.
DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store);

/// Memory that such a Comm keeps for sums on their way; one that only gathers needs none.
std::size_t host_comm_bytes(int world_size);

}  // namespace pfc
