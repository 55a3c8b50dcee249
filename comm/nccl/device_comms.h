// The interface to NCCL. Where CUDA is not built, absent.cc implements it.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "kernels/ops.h"

namespace pfc {

/// The communicators of a training step, for memory of one device.
struct DeviceComms {
  std::unique_ptr<Comm> step;  ///< on a GPU its collectives are in the compute stream
  /// On a GPU its collectives are in a stream of their own; a GradReducer orders the two.
  std::unique_ptr<Comm> gradients;
};

/// REQUIRES: ops is a GPU's. The store is used to connect, and later to find out which rank is
/// missing. Throws CommError that names missing ranks, or the two ranks and the interface that
/// cannot connect.
DeviceComms make_nccl_comms(Ops& ops, const CommOptions& options, KeyValueStore& store);

}  // namespace pfc
