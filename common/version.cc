#include "common/version.h"

namespace pfc {

const char* version() { return PFC_VERSION; }

const char* cuda_version() { return PFC_CUDA_VERSION; }

}  // namespace pfc
