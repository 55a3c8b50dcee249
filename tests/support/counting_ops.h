// CpuOps that record the bytes they allocate and copy to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc::testing {

class CountingOps : public CpuOps {
 public:
  using CpuOps::CpuOps;

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    allocated += bytes;
    return CpuOps::allocate(bytes);
  }
  void copy_to_host(void* host, const Tensor& device) override {
    copied.push_back(device.bytes());
    CpuOps::copy_to_host(host, device);
  }

  std::size_t allocated = 0;        ///< bytes of all allocations, including freed ones
  std::vector<std::size_t> copied;  ///< bytes of each copy to the host
};

}  // namespace pfc::testing
