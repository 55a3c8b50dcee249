// Copies to the GPU on a separate stream, concurrent with the compute stream.

#include "kernels/cuda/ops/cuda_ops.h"

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

/// Borrows the device.
class CudaCopyQueue : public CopyQueue {
 public:
  explicit CudaCopyQueue(const CudaDevice& device) : device_(device) {}

  std::unique_ptr<Buffer> allocate_pinned(std::size_t bytes) override;
  void copy_to_device(const Tensor& device, const void* pinned) override;
  void wait_for(const Event& event) override;
  std::unique_ptr<Event> record() override;

 private:
  /// Makes the device current in the calling thread, where GPU 0 may still be current. Events are
  /// created on the current device.
  void make_current() const;

  const CudaDevice& device_;
  CudaStream stream_;
};

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

}  // namespace

std::unique_ptr<CopyQueue> CudaOps::copy_queue() {
  return std::make_unique<CudaCopyQueue>(device_);
}

}  // namespace pfc
