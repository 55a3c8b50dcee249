// Replaces NCCL in builds without CUDA. Only an Ops for a GPU uses NCCL, and such a build has
// none.

#include "comm/nccl/device_comms.h"
#include "common/error.h"

namespace pfc {

DeviceComms make_nccl_comms(Ops& /*ops*/, const CommOptions& /*options*/,
                            KeyValueStore& /*store*/) {
  throw DeviceError("NCCL: this program was built without CUDA");
}

}  // namespace pfc
