// Fixture for tests of ops. Each test runs on every device, with the tolerance of the device's
// activation type.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/device_values.h"
#include "tests/support/relative_error.h"
#include "tests/support/test_devices.h"

namespace pfc {

/// In kernels_test: the CPU with each supported instruction set, with one thread and with three,
/// because results must not depend on the number of cores, and with float32 and, if supported,
/// bfloat16 activations; and the emulated GPU. In kernels_gpu_test: this machine's GPU.
std::vector<TestDevice> test_devices();

inline std::string device_name(const ::testing::TestParamInfo<TestDevice>& info) {
  return info.param.name;
}

class OnEachDevice : public ::testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    if (!GetParam().why_not.empty()) GTEST_SKIP() << GetParam().why_not;
    ops_ = GetParam().make(0);
  }

  OwnedTensor tensor(const Shape& shape) { return {*ops_, shape}; }
  OwnedTensor tensor(const Shape& shape, std::span<const float> values) {
    return to_device(*ops_, shape, values);
  }
  /// Tensors of the device's activation type.
  OwnedTensor activations(const Shape& shape) { return {*ops_, shape, ops_->activation_type()}; }
  OwnedTensor activations(const Shape& shape, std::span<const float> values) {
    return to_device(*ops_, shape, values, ops_->activation_type());
  }
  [[nodiscard]] std::vector<float> values(const Tensor& tensor) const {
    return to_host(*ops_, tensor);
  }
  /// Returns the relative error allowed for results in the activation type, compared with a
  /// reference that used the same rounded inputs.
  [[nodiscard]] double tolerance() const {
    return ops_->activation_type() == DType::kFloat32 ? 1e-5 : 1e-2;
  }
  /// Returns normally distributed numbers, the same in every run.
  std::vector<float> random(std::int64_t n, float mean = 0.f, float deviation = 1.f) {
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = normal(generator_);
    return values;
  }

  std::unique_ptr<Ops> ops_;
  std::mt19937_64 generator_{20220315};
};

}  // namespace pfc
