#include "common/trace/recorder.h"

#include <utility>

#include "common/error.h"

namespace pfc {

TraceTrack TraceRecorder::track(TraceRow row, std::string name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back({row, std::move(name)});
  return {*this, row, static_cast<std::uint32_t>(tracks_.size() - 1)};
}

void TraceRecorder::arm(std::int64_t first, std::int64_t last, const Limits& limits) {
  TraceRecording empty;
  empty.spans.reserve(limits.spans);
  empty.loader_spans.reserve(limits.loader_spans);
  const std::lock_guard lock(mutex_);
  on_ = false;
  std::swap(recording_, empty);
  limits_ = limits;
  first_ = first;
  last_ = last;
  ended_ = false;
  armed_ = true;
}

void TraceRecorder::wait() {
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [this] { return ended_; });
}

void TraceRecorder::stop() {
  const std::lock_guard lock(mutex_);
  if (armed_) end();
}

TraceRecording TraceRecorder::take() {
  const std::lock_guard lock(mutex_);
  check(ended_, "TraceRecorder: take() before the end");
  recording_.tracks = tracks_;
  return std::exchange(recording_, {});
}

void TraceRecorder::change_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (!armed_) return;
  if (on_) recording_.last_step = step_;
  step_.store(step, std::memory_order_relaxed);
  if (step > last_) return end();
  if (step < first_ || on_) return;
  recording_.first_step = step;
  on_ = true;
}

void TraceRecorder::end() {
  on_ = false;
  armed_ = false;
  ended_ = true;
  ended_changed_.notify_all();
}

void TraceRecorder::add(TraceRow row, const TraceSpan& span) {
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  const bool of_loader = row == TraceRow::kLoader;
  std::vector<TraceSpan>& spans = of_loader ? recording_.loader_spans : recording_.spans;
  if (spans.size() < (of_loader ? limits_.loader_spans : limits_.spans)) {
    spans.push_back(span);
  } else {
    ++recording_.dropped;
  }
}

}  // namespace pfc
