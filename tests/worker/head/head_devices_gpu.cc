#include "tests/worker/head/head_devices.h"

namespace pfc::testing {

std::vector<TestDevice> head_devices() { return {real_gpus().front()}; }

}  // namespace pfc::testing
