#include "tests/kernels/on_each_device.h"

namespace pfc {

std::vector<TestDevice> test_devices() { return real_gpus(); }

}  // namespace pfc
