// Devices on which a test runs, once on each.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/ops.h"
#include "tests/support/temporary_folder.h"

namespace pfc {

struct TestDevice {
  std::string name;  ///< part of the test's name: letters and digits
  /// cpu_threads: number of threads, only for CPUs.
  std::function<std::unique_ptr<Ops>(int cpu_threads)> make;
  std::string why_not = {};  ///< if not empty, tests are skipped with this reason

  friend void PrintTo(const TestDevice& device, std::ostream* out) { *out << device.name; }
};

/// Returns whether the GPUs of this program are emulated (tests/support/simt). Emulated GPUs add
/// and round like a CPU.
inline bool on_emulated_gpu() {
  return cuda_devices().front().detail.find("Emulated") != std::string::npos;
}

/// Folder for the cache of cuDNN's algorithms in a test process. Algorithms are timed as in
/// training.
inline const std::filesystem::path& algorithms_of_tests() {
  static const TemporaryFolder folder;
  return folder.path();
}

/// GPU 0 with activations of float32, bfloat16 and float16, in this order.
inline std::vector<TestDevice> gpus_for_tests(const std::string& name, const std::string& why_not) {
  std::vector<TestDevice> devices;
  for (const auto& [suffix, type] :
       {std::pair{"", DType::kFloat32}, std::pair{"Bf16", DType::kBFloat16},
        std::pair{"Fp16", DType::kFloat16}}) {
    devices.push_back({name + suffix,
                       [type](int) {
                         return make_cuda_ops(
                             {.activations = type, .cache = algorithms_of_tests()});
                       },
                       why_not});
  }
  return devices;
}

/// Returns the emulated GPUs (tests/support/simt); none in ThreadSanitizer builds, which have no
/// emulation.
inline std::vector<TestDevice> emulated_gpus() {
  if (!cuda_devices().front().available) return {};
  return gpus_for_tests("EmulatedGpu", "");
}

/// Returns this machine's GPU. Without a GPU, tests are skipped.
inline std::vector<TestDevice> real_gpus() {
  const DeviceInfo gpu = cuda_devices().front();
  return gpus_for_tests("Gpu", gpu.available ? "" : "no GPU: " + gpu.detail);
}

}  // namespace pfc
