// The one place that chooses a transport.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/ids.h"
#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

struct CommOptions {
  Membership membership;
  std::string name = "train";  ///< keys in the store begin with it: one Comm a name
  std::string address;         ///< this host's address as its peers see it; empty: loopback
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{300'000};  ///< one collective
};

/// A Comm of host memory: Gloo over TCP, or for one worker none at all (store may then be null).
/// Throws CommError that names the missing ranks when a peer does not connect in time. With peers,
/// SIGPIPE is ignored in this process from then on, unless it is handled already.
std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store);

/// What a training step communicates with: memory of one device.
struct DeviceComms {
  std::unique_ptr<Comm> step;       ///< on a GPU in the order of the compute stream
  std::unique_ptr<Comm> gradients;  ///< beside it: a GradReducer says what waits for what
};

/// On a CPU as make_host_comm; on a GPU NCCL, or for one worker none at all. `ops` and store are
/// borrowed. The name is given: "step" and "gradients". On a GPU both fail together, and an error
/// names who does not take part. Throws CommError that names the missing ranks, or the pair of
/// ranks and the network interface that cannot connect.
DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store);

/// Memory that such a Comm keeps for sums on their way; one that only gathers needs none.
std::size_t host_comm_bytes(int world_size);

}  // namespace pfc
