#include <utility>
#include <vector>

#include "comm/nccl/nccl_comm.h"
#include "common/error.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "worker/gradients/device_grad_reducers.h"

namespace pfc {
namespace {

struct TimedEvent : CudaEvent {
  TimedEvent() : CudaEvent(Time::kYes) {}
};

double seconds_between(const CudaEvent& start, const CudaEvent& end) {
  float elapsed_ms = 0;
  cuda_check(cudaEventElapsedTime(&elapsed_ms, start.get(), end.get()), "reading an event's time");
  return elapsed_ms / 1000.0;
}

class CudaReducer : public GradReducer {
 public:
  CudaReducer(CudaOps& ops, NcclComm& comm, const Tensor& gradients,
              const GradReducerOptions& options)
      : compute_(ops.device().compute.get()),
        comm_(comm),
        gradients_(gradients.f32()),
        buckets_(make_grad_buckets(gradients, options)),
        times_(buckets_.size()) {
    check(comm.stream() != compute_, "GradReducer: its Comm has no stream of its own");
  }

  void ready(std::int64_t offset) override {
    if (started_ == 0) begin_step();
    while (started_ < buckets_.size() && buckets_[started_].offset >= offset) start_next();
  }

  void wait() override {
    check(started_ == buckets_.size(), "GradReducer: wait() before all gradients are ready");
    wait_called_.record(compute_);
    reduced_.record(comm_.stream());
    reduced_.make_wait(compute_);
    wait_done_.record(compute_);
    started_ = 0;
    has_times_ = true;
  }

  [[nodiscard]] const Timeline& timeline() const override { return timeline_; }

 private:
  struct BucketTimes {
    TimedEvent start, end;
  };

  void begin_step() {
    if (has_times_ && cudaEventQuery(wait_done_.get()) == cudaSuccess) read_times();
    step_start_.record(compute_);
  }

  void start_next() {
    const GradBucket& bucket = buckets_[started_];
    BucketTimes& times = times_[started_];
    ready_.record(compute_);  // the work that computes this bucket is enqueued by now
    ready_.make_wait(comm_.stream());
    times.start.record(comm_.stream());
    comm_.all_reduce_sum({gradients_ + bucket.offset, Shape{bucket.count}});
    times.end.record(comm_.stream());
    ++started_;
  }

  void read_times() {
    timeline_.buckets.clear();
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      timeline_.buckets.push_back({.offset = buckets_[i].offset,
                                   .count = buckets_[i].count,
                                   .start = seconds_between(step_start_, times_[i].start),
                                   .end = seconds_between(step_start_, times_[i].end)});
    }
    timeline_.wait_called = seconds_between(step_start_, wait_called_);
    timeline_.wait_done = seconds_between(step_start_, wait_done_);
  }

  cudaStream_t const compute_;
  NcclComm& comm_;
  float* const gradients_;
  const std::vector<GradBucket> buckets_;
  std::size_t started_ = 0;  // buckets started in this step
  CudaEvent ready_, reduced_;

  // The times of the last step for which wait() was called. They are read when the next step
  // begins, unless the GPU is still busy with the last one.
  bool has_times_ = false;
  TimedEvent step_start_, wait_called_, wait_done_;
  std::vector<BucketTimes> times_;
  Timeline timeline_;
};

}  // namespace

std::unique_ptr<GradReducer> make_cuda_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                    const GradReducerOptions& options) {
  auto* const cuda = dynamic_cast<CudaOps*>(&ops);
  auto* const nccl = dynamic_cast<NcclComm*>(&comm);
  check(cuda != nullptr && nccl != nullptr,
        "make_cuda_grad_reducer: expected the Ops and the Comm of a GPU");
  return std::make_unique<CudaReducer>(*cuda, *nccl, gradients, options);
}

}  // namespace pfc
