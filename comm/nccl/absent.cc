// Replaces NCCL in builds without CUDA, which have no Ops for a GPU and so never call it.

#include "comm/nccl/device_comms.h"
#include "common/error.h"

namespace pfc {

DeviceComms make_nccl_comms(Ops& /*ops*/, const CommOptions& /*options*/,
                            KeyValueStore& /*store*/) {
  throw DeviceError("NCCL: this program was built without CUDA");
}

}  // namespace pfc
