// A large area of GPU memory that a job reserves at its start and from which it allocates buffers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "kernels/cuda/runtime/memory.h"

namespace pfc {

/// The memory that a job needs is known before it starts (worker/memory/memory_plan.h). Reserving
/// it in one piece prevents other programs from taking it during the job, and avoids fragmentation
/// by cudaMalloc. Allocates first fit; merges freed memory with adjacent free memory. Used by one
/// thread. The buffers share ownership of the arena, so it lives as long as they do.
class CudaArena : public std::enable_shared_from_this<CudaArena> {
 public:
  explicit CudaArena(std::size_t bytes);

  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }
  /// Returns nullptr if no free piece is large enough. Aligned to 512 bytes; not zeroed.
  std::unique_ptr<Buffer> allocate(std::size_t bytes);

 private:
  class Piece;
  void release(std::size_t offset, std::size_t bytes);

  CudaBuffer memory_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; adjacent pieces are merged
};

}  // namespace pfc
