#include "kernels/cuda/margin/lists.h"

namespace pfc {

void CudaLists::begin(std::int64_t bytes) {
  turn_ = 1 - turn_;
  used_ = 0;
  next().copied.wait();  // of the lists before the last
  if (bytes <= room_) return;
  room_ = bytes + bytes / 16;  // sampled lists differ in length from step to step
  const auto size = static_cast<std::size_t>(room_);
  turns_[1 - turn_].copied.wait();
  on_device_.reserve(size);
  for (Turn& t : turns_) t.memory = std::make_unique<PinnedMemory>(size);
}

std::int64_t CudaLists::take(std::int64_t bytes) {
  const std::int64_t offset = used_;
  used_ += rounded(bytes);
  check(used_ <= room_, "CudaLists: more lists than were announced");
  return offset;
}

void CudaLists::send() {
  if (used_ == 0) return;
  cuda_check(cudaMemcpyAsync(on_device_.data(), next().memory->as<void>(),
                             static_cast<std::size_t>(used_), cudaMemcpyHostToDevice, stream_),
             "a copy to the GPU");
  next().copied.record(stream_);
}

}  // namespace pfc
