// NCCL as the rest of worker/ sees it: real where CUDA is built, absent.cc elsewhere.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "worker/comm/comm.h"
#include "worker/comm/comm_options.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

/// What a training step communicates with: memory of one device.
struct DeviceComms {
  std::unique_ptr<Comm> step;       ///< on a GPU in the order of the compute stream
  std::unique_ptr<Comm> gradients;  ///< beside it: a GradReducer says what waits for what
};

/// ops: a GPU's. The store serves to connect, and later to find out who is missing. Throws
/// CommError that names absent ranks, or the pair of ranks and the interface that cannot connect.
DeviceComms make_nccl_comms(Ops& ops, const CommOptions& options, KeyValueStore& store);

}  // namespace pfc
