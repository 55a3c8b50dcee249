#include "kernels/cuda/runtime/copy_queue.h"

namespace pfc {
namespace {

class PinnedBuffer : public Buffer {
 public:
  explicit PinnedBuffer(std::size_t bytes) : memory_(bytes) {}
  [[nodiscard]] std::byte* data() override { return memory_.as<std::byte>(); }
  [[nodiscard]] std::size_t bytes() const override { return memory_.bytes(); }

 private:
  const PinnedMemory memory_;
};

}  // namespace

void CudaCopyQueue::make_current() const {
  cuda_check(cudaSetDevice(device_.index), "cudaSetDevice");
}

std::unique_ptr<Buffer> CudaCopyQueue::allocate_pinned(std::size_t bytes) {
  return std::make_unique<PinnedBuffer>(bytes);
}

void CudaCopyQueue::copy_to_device(const Tensor& device, const void* pinned) {
  make_current();
  cuda_check(
      cudaMemcpyAsync(device.data, pinned, device.bytes(), cudaMemcpyHostToDevice, stream_.get()),
      "a copy of images to the GPU");
}

void CudaCopyQueue::wait_for(const Event& event) {
  make_current();
  dynamic_cast<const CudaEvent&>(event).make_wait(stream_.get());
}

std::unique_ptr<Event> CudaCopyQueue::record() {
  make_current();
  auto event = std::make_unique<CudaEvent>();
  event->record(stream_.get());
  return event;
}

}  // namespace pfc
