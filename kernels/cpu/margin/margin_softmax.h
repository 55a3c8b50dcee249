// The streaming margin softmax of kernels/margin/margin_softmax.h on CPUs.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// REQUIRES: ops is a CpuOps. ops and the table's memory are borrowed.
std::unique_ptr<MarginSoftmax> make_cpu_margin_softmax(Ops& ops,
                                                       const MarginSoftmaxOptions& options,
                                                       const CentreTable& table);

/// Bytes of host memory that steps take beside the table.
struct CpuMarginBytes {
  std::int64_t kept = 0;     ///< products kept from forward() to backward(), within logits_bytes
  std::int64_t working = 0;  ///< arrays of the samples, and each thread's tile
};

struct CpuMarginSizes {
  std::int64_t samples = 0;    ///< N, of all workers; each may have its class on this worker
  std::int64_t dimension = 0;  ///< D
  std::int64_t active = 0;     ///< S
  int threads = 1;
};

/// As the softmax allocates them. What it reserves for growing numbers of active classes is not
/// counted: nothing touches it, so the system gives no memory for it.
CpuMarginBytes cpu_margin_bytes(const MarginSoftmaxOptions& options, const CpuMarginSizes& sizes);

}  // namespace pfc
