// The fixture of the op tests: one body for all devices, the tolerance included.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/make_ops.h"

namespace pfc {

struct TestDevice {
  std::string name;
  std::function<std::unique_ptr<Ops>()> make;

  friend void PrintTo(const TestDevice& device, std::ostream* out) { *out << device.name; }
};

/// Every device that tests run on: the CPU with each instruction set that it can run, with one
/// thread and with three (more than cores: parts and tails must not hang on the machine).
inline std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::string name;
    std::ranges::copy_if(std::string(kernels->name), std::back_inserter(name), ::isalnum);
    for (const int threads : {1, 3}) {
      devices.push_back({"Cpu" + name + "Threads" + std::to_string(threads), [threads, kernels] {
                           return std::make_unique<CpuOps>(threads, *kernels);
                         }});
    }
  }
  return devices;
}

inline std::string device_name(const testing::TestParamInfo<TestDevice>& info) {
  return info.param.name;
}

/// A tensor that owns its memory and is filled from the host.
class DeviceTensor {
 public:
  DeviceTensor(Ops& ops, Shape shape)
      : ops_(&ops),
        buffer_(ops.allocate(static_cast<std::size_t>(shape.elements()) * sizeof(float))),
        view_(reinterpret_cast<float*>(buffer_->data()), shape) {}
  DeviceTensor(Ops& ops, Shape shape, std::span<const float> values) : DeviceTensor(ops, shape) {
    check(static_cast<std::int64_t>(values.size()) == shape.elements(), "DeviceTensor: size");
    ops.copy_to_device(view_, values.data());
  }
  operator const Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::vector<float> values() const {
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
  OnEachDevice() : ops_(GetParam().make()) {}

  DeviceTensor tensor(Shape shape) { return {*ops_, shape}; }
  DeviceTensor tensor(Shape shape, std::span<const float> values) { return {*ops_, shape, values}; }
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
