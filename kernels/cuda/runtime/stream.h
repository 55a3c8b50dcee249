// Owners of CUDA streams and events.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/runtime/cuda_call.h"
#include "kernels/ops.h"

namespace pfc {

class CudaStream {
 public:
  CudaStream() {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  CudaStream(const CudaStream&) = delete;
  ~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void synchronize() const { cuda_check(cudaStreamSynchronize(stream_), "waiting for a stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent : public Event {
 public:
  enum class Time { kNo, kYes };  ///< whether it records a time, which is slower

  explicit CudaEvent(Time time = Time::kNo) {
    const unsigned flags = time == Time::kNo ? cudaEventDisableTiming : 0;
    cuda_check(cudaEventCreateWithFlags(&event_, flags), "making an event");
  }
  CudaEvent(const CudaEvent&) = delete;
  ~CudaEvent() override { static_cast<void>(cudaEventDestroy(event_)); }

  [[nodiscard]] cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) {
    cuda_check(cudaEventRecord(event_, stream), "recording an event");
  }
  void make_wait(cudaStream_t stream) const {
    cuda_check(cudaStreamWaitEvent(stream, event_, 0), "a stream's wait for an event");
  }
  void wait() override { cuda_check(cudaEventSynchronize(event_), "waiting for an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace pfc
