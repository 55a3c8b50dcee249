// The fixture of the op tests: one body for all devices, the tolerance included.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

struct TestDevice {
  std::string name;
  std::function<std::unique_ptr<Ops>()> make;
  std::string why_not;  ///< not empty: tests are reported as not run, with this reason

  friend void PrintTo(const TestDevice& device, std::ostream* out) { *out << device.name; }
};

/// Every device that the binary's tests run on. kernels_test: the CPU with each instruction set
/// that it can run, with one thread and with three (more than cores: parts and tails must not hang
/// on the machine), and the emulated GPU. kernels_gpu_test: the machine's GPU.
std::vector<TestDevice> test_devices();

inline std::string device_name(const testing::TestParamInfo<TestDevice>& info) {
  return info.param.name;
}

/// A tensor that owns its memory and is filled from the host; of another type than float32 by
/// rounding.
class DeviceTensor {
 public:
  DeviceTensor(Ops& ops, Shape shape, DType type = DType::kFloat32)
      : ops_(&ops),
        buffer_(ops.allocate(static_cast<std::size_t>(shape.elements()) * size_of(type))),
        view_(buffer_->data(), type, shape) {}
  DeviceTensor(Ops& ops, Shape shape, std::span<const float> values, DType type = DType::kFloat32)
      : DeviceTensor(ops, shape, type) {
    check(static_cast<std::int64_t>(values.size()) == shape.elements(), "DeviceTensor: size");
    if (type == DType::kFloat32) {
      ops.copy_to_device(view_, values.data());
    } else {
      ops.convert(DeviceTensor(ops, shape, values), view_);
    }
  }
  operator const Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::vector<float> values() const {
    if (view_.dtype != DType::kFloat32) {
      const DeviceTensor floats(*ops_, view_.shape);
      ops_->convert(view_, floats);
      return floats.values();
    }
    std::vector<float> host(static_cast<std::size_t>(view_.elements()));
    ops_->copy_to_host(host.data(), view_);
    return host;
  }

 private:
  Ops* ops_;
  std::unique_ptr<Buffer> buffer_;
  Tensor view_;
};

class OnEachDevice : public testing::TestWithParam<TestDevice> {
 protected:
  void SetUp() override {
    if (!GetParam().why_not.empty()) GTEST_SKIP() << GetParam().why_not;
    ops_ = GetParam().make();
  }

  DeviceTensor tensor(Shape shape) { return {*ops_, shape}; }
  DeviceTensor tensor(Shape shape, std::span<const float> values) { return {*ops_, shape, values}; }
  /// Of the device's activation type.
  DeviceTensor activations(Shape shape) { return {*ops_, shape, ops_->activation_type()}; }
  DeviceTensor activations(Shape shape, std::span<const float> values) {
    return {*ops_, shape, values, ops_->activation_type()};
  }
  /// Of results in the activation type, against a reference that was given the same rounded inputs.
  [[nodiscard]] double tolerance() const {
    return ops_->activation_type() == DType::kFloat32 ? 1e-5 : 1e-2;
  }
  /// Normal deviates times `deviation` plus `mean`, as kept on the host too.
  std::vector<float> random(std::int64_t n, float mean = 0.f, float deviation = 1.f) {
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = normal(generator_);
    return values;
  }

  std::unique_ptr<Ops> ops_;
  std::mt19937_64 generator_{20220315};
};

/// |found - expected| / |expected| in L2, over whole tensors.
template <typename A, typename B>
double relative_error(const std::vector<A>& found, const std::vector<B>& expected) {
  check(found.size() == expected.size(), "relative_error: sizes");
  double error = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    error += d * d;
    size += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

}  // namespace pfc
