// What the head's tests run on: one body for all devices.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
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

}  // namespace pfc::testing
