// What the head's tests run on: one body for all devices.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/ops.h"

namespace pfc::testing {

struct HeadDevice {
  std::string name;
  /// threads: of a CPU.
  std::function<std::unique_ptr<Ops>(int threads)> make;
  std::string why_not = {};  ///< not empty: tests are reported as not run, with this reason

  friend void PrintTo(const HeadDevice& device, std::ostream* out) { *out << device.name; }
};

HeadDevice cpu_head_device();

/// head_test: the CPU, and a GPU that is emulated, with a cache so small that a few hundred classes
/// are several tiles. head_gpu_test: the machine's GPU.
std::vector<HeadDevice> head_devices();

// The device that is a test's parameter, or a part of it.
inline const HeadDevice& device_of(const HeadDevice& device) { return device; }
template <typename Rest>
const HeadDevice& device_of(const std::tuple<HeadDevice, Rest>& parameter) {
  return std::get<0>(parameter);
}
template <typename Case>
const HeadDevice& device_of(const Case& test_case) {
  return test_case.device;
}

/// A fixture whose tests run once a device. Parameter: see device_of().
template <typename Parameter>
class OnHeadDevice : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    const std::string& why_not = device_of(this->GetParam()).why_not;
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
};

}  // namespace pfc::testing
