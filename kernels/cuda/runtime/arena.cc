#include "kernels/cuda/runtime/arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/cuda/scratch.h"

namespace pfc {

class CudaArena::Piece : public Buffer {
 public:
  Piece(std::shared_ptr<CudaArena> arena, std::size_t offset, std::size_t bytes)
      : arena_(std::move(arena)), offset_(offset), bytes_(bytes) {}
  Piece(const Piece&) = delete;
  ~Piece() override { arena_->release(offset_, gpu_allocation(bytes_)); }
  [[nodiscard]] std::byte* data() override { return arena_->memory_.data() + offset_; }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  const std::shared_ptr<CudaArena> arena_;  // shared: buffers may outlive the Ops
  const std::size_t offset_, bytes_;
};

CudaArena::CudaArena(std::size_t bytes)
    : memory_(gpu_allocation(bytes)), free_{{0, gpu_allocation(bytes)}} {}

std::unique_ptr<Buffer> CudaArena::allocate(std::size_t bytes) {
  const std::size_t wanted = gpu_allocation(bytes);
  const auto found =
      std::ranges::find_if(free_, [&](const auto& stretch) { return stretch.second >= wanted; });
  if (found == free_.end()) return nullptr;
  const auto [offset, size] = *found;
  auto piece = std::make_unique<Piece>(shared_from_this(), offset, bytes);
  free_.erase(found);
  if (size > wanted) free_[offset + wanted] = size - wanted;
  return piece;
}

// Pending work on the compute stream may still use the memory. The memory's next owner enqueues its
// work on the same stream, so that work runs later.
void CudaArena::release(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace pfc
