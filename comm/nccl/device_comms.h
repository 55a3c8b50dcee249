// Interface to NCCL. absent.cc implements it in builds without CUDA.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "kernels/ops.h"

namespace pfc {

/// Communicators of a training step, for the memory of one device.
struct DeviceComms {
  std::unique_ptr<Comm> step;  ///< on a GPU, uses the compute stream
  /// On a GPU, uses a separate stream; the caller (a GradReducer) orders the two streams.
  std::unique_ptr<Comm> gradients;
};

/// Makes both communicators. REQUIRES: ops is for a GPU. Uses the store to connect, and later to
/// find missing ranks. Throws CommError that names missing ranks, or the two ranks and the
/// interface that cannot connect.
DeviceComms make_nccl_comms(Ops& ops, const CommOptions& options, KeyValueStore& store);

}  // namespace pfc
