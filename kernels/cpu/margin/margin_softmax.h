// The streaming margin softmax of kernels/margin/margin_softmax.h on CPUs.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// REQUIRES: ops is a CpuOps. Borrows ops and the table's memory.
std::unique_ptr<MarginSoftmax> make_cpu_margin_softmax(Ops& ops,
                                                       const MarginSoftmaxOptions& options,
                                                       const CentreTable& table);

/// Bytes of host memory used by steps in addition to the table.
struct CpuMarginBytes {
  std::int64_t kept = 0;     ///< products kept from forward() to backward(), within logits_bytes
  std::int64_t working = 0;  ///< arrays for the samples, and each thread's tile
};

struct CpuMarginSizes {
  std::int64_t samples = 0;    ///< N, over all workers; each may have its class on this worker
  std::int64_t dimension = 0;  ///< D
  std::int64_t active = 0;     ///< S
  int threads = 1;
};

/// Returns the sizes that the softmax allocates. Excludes address space reserved for more active
/// classes: the softmax does not touch it, so the system provides no memory for it.
CpuMarginBytes cpu_margin_bytes(const MarginSoftmaxOptions& options, const CpuMarginSizes& sizes);

}  // namespace pfc
