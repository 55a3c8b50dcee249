// The devices on which the head's tests run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/test_devices.h"

namespace pfc::testing {

/// Returns a CPU with as many threads as the test requests.
TestDevice cpu_head_device();

/// Returns in head_test the CPU and the emulated GPU, whose cache is so small that a few hundred
/// classes need several tiles. Returns in head_gpu_test this machine's GPU.
std::vector<TestDevice> head_devices();

// Returns the device in a test's parameter: a device, a tuple that begins with one, or a struct
// with a member `device`.
inline const TestDevice& device_of(const TestDevice& device) { return device; }
template <typename Rest>
const TestDevice& device_of(const std::tuple<TestDevice, Rest>& parameter) {
  return std::get<0>(parameter);
}
template <typename Case>
const TestDevice& device_of(const Case& test_case) {
  return test_case.device;
}

/// A fixture whose tests run once on each device. Parameter: see device_of().
template <typename Parameter>
class OnHeadDevice : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    const std::string& why_not = device_of(this->GetParam()).why_not;
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
};

}  // namespace pfc::testing
