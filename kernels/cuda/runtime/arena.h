// One stretch of GPU memory, reserved at the start of a job, from which buffers are cut.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "kernels/cuda/runtime/memory.h"

namespace pfc {

/// What a job needs is known before it starts (worker/memory/memory_plan.h): reserved at once, it
/// cannot be taken by another program in the middle of a run, nor be cut up. First fit; what is
/// given back joins what is free beside it. Belongs to one thread; lives as long as its buffers
/// (shared by them).
class CudaArena : public std::enable_shared_from_this<CudaArena> {
 public:
  explicit CudaArena(std::size_t bytes);

  /// Null where no free stretch is long enough. 512-byte aligned; not zeroed.
  std::unique_ptr<Buffer> allocate(std::size_t bytes);

 private:
  class Piece;
  void release(std::size_t offset, std::size_t bytes);

  CudaBuffer memory_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; never two side by side
};

}  // namespace pfc
