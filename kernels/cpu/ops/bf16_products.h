// Matrix products of bfloat16 numbers, using oneDNN.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// Caches a plan for each shape, because creating one takes longer than a small product, and a
/// network has few shapes. Borrows the device, and shares its scratch memory.
class Bf16Products {
 public:
  explicit Bf16Products(CpuDevice& device);
  ~Bf16Products();

  /// Prepares the plan and scratch memory of a product. multiply() does this if it was not called.
  /// REQUIRES: as for multiply(), but the tensors need no memory. Throws DeviceError.
  void plan(const Gemm& g);
  /// REQUIRES: a and b are bfloat16, c is float32 or bfloat16. Throws DeviceError.
  void multiply(const Gemm& g);

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, float, float, DType>;
  struct Plan;
  Plan& plan_of(const Gemm& g);
  template <typename F>
  void call_dnnl(const F& f) const;

  CpuDevice& device_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace pfc
