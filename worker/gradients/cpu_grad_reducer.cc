#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "worker/gradients/device_grad_reducers.h"

namespace pfc {
namespace {

class ThreadReducer : public GradReducer {
 public:
  ThreadReducer(Ops& ops, Comm& comm, const Tensor& gradients, const GradReducerOptions& options)
      : ops_(ops),
        comm_(comm),
        gradients_(gradients.f32()),
        buckets_(make_grad_buckets(gradients, options)),
        events_(buckets_.size()),
        thread_([this] { run(); }) {}

  ~ThreadReducer() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void ready(std::int64_t offset) override;
  void wait() override;
  [[nodiscard]] const Timeline& timeline() const override { return shown_; }

 private:
  void run();
  /// Waits for the next bucket to reduce. Returns nullptr when the reducer ends.
  const GradBucket* next();
  void reduce(const GradBucket& bucket);
  [[nodiscard]] double now() const { return seconds_since(step_start_); }

  Ops& ops_;
  Comm& comm_;  // used only by the thread
  float* const gradients_;
  const std::vector<GradBucket> buckets_;  // in the order of their reduction

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::size_t ready_ = 0;                       // number of this step's buckets that are final
  std::size_t done_ = 0;                        // number of this step's buckets that are reduced
  std::vector<std::unique_ptr<Event>> events_;  // of each ready bucket: its gradients are written
  TimePoint step_start_;
  Timeline timeline_;
  std::exception_ptr error_;
  bool ended_ = false;

  Timeline shown_;  // times of the last step; used only by the training thread
  std::thread thread_;
};

void ThreadReducer::ready(std::int64_t offset) {
  {
    const std::lock_guard lock(mutex_);
    if (ready_ == 0) {
      step_start_ = Clock::now();
      timeline_ = {};
    }
    while (ready_ < buckets_.size() && buckets_[ready_].offset >= offset) {
      events_[ready_++] = ops_.record();
    }
  }
  changed_.notify_all();
}

void ThreadReducer::wait() {
  std::unique_lock lock(mutex_);
  check(ready_ == buckets_.size(), "GradReducer: wait() before all gradients are ready");
  timeline_.wait_called = now();
  changed_.wait(lock, [&] { return done_ == buckets_.size() || error_; });
  if (error_) std::rethrow_exception(error_);
  timeline_.wait_done = now();
  shown_ = timeline_;
  ready_ = done_ = 0;
}

const GradBucket* ThreadReducer::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || done_ < ready_; });
  return ended_ ? nullptr : &buckets_[done_];
}

void ThreadReducer::reduce(const GradBucket& bucket) {
  std::unique_ptr<Event> event;
  Span span{.offset = bucket.offset, .count = bucket.count};
  {
    const std::lock_guard lock(mutex_);
    event = std::move(events_[done_]);
    span.start = now();
  }
  // The compute stream may still be writing this bucket when ready() is called for it.
  event->wait();
  comm_.all_reduce_sum({gradients_ + bucket.offset, Shape{bucket.count}});
  const std::lock_guard lock(mutex_);
  span.end = now();
  timeline_.buckets.push_back(span);
  ++done_;
}

void ThreadReducer::run() {
  std::exception_ptr error;
  try {
    while (const GradBucket* bucket = next()) {
      reduce(*bucket);
      changed_.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  changed_.notify_all();
}

}  // namespace

std::unique_ptr<GradReducer> make_cpu_grad_reducer(Ops& ops, Comm& comm, const Tensor& gradients,
                                                   const GradReducerOptions& options) {
  return std::make_unique<ThreadReducer>(ops, comm, gradients, options);
}

}  // namespace pfc
