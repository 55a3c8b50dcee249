// What all CPU plans of one Ops share.
#pragma once

#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/dnnl_call.h"
#include "kernels/cpu/runtime/threads.h"
#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {

/// Belongs to an Ops; plans borrow it, so they must not outlive the Ops.
struct CpuDevice {
  CpuDevice(int cpu_threads, const VectorKernels& kernels)
      : threads(cpu_threads), vector(kernels) {}

  Threads threads;
  const VectorKernels& vector;
  DnnlContext dnnl;
  Scratch scratch;
};

/// Checks shape, dtype and presence of an argument; `what` names op and argument.
inline float* float_argument(const Tensor& t, std::int64_t elements, std::string_view what) {
  check(t.data != nullptr && t.elements() == elements, what);
  return t.f32();
}

}  // namespace pfc
