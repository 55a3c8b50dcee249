// NCCL as the rest of worker/ sees it: real where CUDA is built, worker/cuda_absent.cc elsewhere.
#pragma once

#include "kernels/ops.h"
#include "worker/comm/key_value_store.h"
#include "worker/comm/make_comm.h"

namespace pfc {

/// ops: a GPU's. The store serves to connect, and later to find out who is missing. Throws
/// CommError that names absent ranks, or the pair of ranks and the interface that cannot connect.
DeviceComms make_nccl_comms(Ops& ops, const CommOptions& options, KeyValueStore& store);

}  // namespace pfc
