#include "common/version.h"

namespace pfc {

const char* version() { return PFC_VERSION; }

}  // namespace pfc
