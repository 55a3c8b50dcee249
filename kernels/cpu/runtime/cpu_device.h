// Resources shared by the plans of a CpuOps: threads, kernels, oneDNN's stream, scratch.
#pragma once

#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/dnnl_call.h"
#include "kernels/cpu/runtime/numbers.h"
#include "kernels/cpu/runtime/threads.h"
#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {

/// Owned by a CpuOps and borrowed by its plans. REQUIRES: plans are destroyed before their Ops.
struct CpuDevice {
  CpuDevice(int cpu_threads, const VectorKernels& kernels)
      : threads(cpu_threads), vector(kernels) {}

  Threads threads;
  const VectorKernels& vector;
  DnnlContext dnnl;
  Scratch scratch;
};

}  // namespace pfc
