#include "common/version.h"

namespace pfc {

const char* version() { return PFC_VERSION; }

const char* cuda_version() { return PFC_CUDA_VERSION; }
bool built_with_cuda() { return *cuda_version() != '\0'; }

}  // namespace pfc
