// Copies beside the compute stream.
#pragma once

#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// The device is borrowed, for its index.
class CudaCopyQueue : public CopyQueue {
 public:
  explicit CudaCopyQueue(const CudaDevice& device) : device_(device) {}

  std::unique_ptr<Buffer> allocate_pinned(std::size_t bytes) override;
  void copy_to_device(const Tensor& device, const void* pinned) override;
  void wait_for(const Event& event) override;
  std::unique_ptr<Event> record() override;

 private:
  /// A thread begins with GPU 0 as its own; events are made for the current one.
  void make_current() const;

  const CudaDevice& device_;
  CudaStream stream_;
};

}  // namespace pfc
