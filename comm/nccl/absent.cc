// Compiled where CUDA is not built. Only an Ops of a GPU asks for NCCL, and there is none then.

#include "comm/nccl/device_comms.h"
#include "common/error.h"

namespace pfc {

DeviceComms make_nccl_comms(Ops& /*ops*/, const CommOptions& /*options*/,
                            KeyValueStore& /*store*/) {
  throw DeviceError("NCCL: this program was built without CUDA");
}

}  // namespace pfc
