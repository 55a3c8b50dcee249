#include "worker/checkpoint/checkpoint_schedule.h"

#include <utility>

namespace pfc {

CheckpointSchedule::CheckpointSchedule(const JobConfig& job, const StepPlan& plan, Begin begin,
                                       CheckpointWriter& writer, Comm& comm)
    : job_(job),
      plan_(plan),
      begin_(std::move(begin)),
      writer_(writer),
      comm_(comm),
      last_time_(Clock::now().time_since_epoch().count()) {}

std::vector<CheckpointEvent> CheckpointSchedule::after_step(std::int64_t step,
                                                            const WorkerSignals& all) {
  if (pending_ != 0 && all.checkpoint_on_disk >= pending_) {
    const TimePoint since = Clock::now();
    const std::int64_t published = pending_;
    publish();
    record(published, true, since);
  }
  if (due(step, all)) start(step, false);
  return std::exchange(events_, {});
}

std::vector<CheckpointEvent> CheckpointSchedule::finish(std::int64_t step) {
  if (last_ != step) start(step, true);
  settle();
  return std::exchange(events_, {});
}

void CheckpointSchedule::fill(WorkerSignals& mine) {
  mine.checkpoint_on_disk = writer_.finished_step();
  if (comm_.rank() != 0 || job_.save_every_seconds <= 0) return;
  const std::int64_t newest = last_;
  const TimePoint begun{Clock::duration(last_time_.load())};
  const bool late = Clock::now() - begun >= std::chrono::duration<double>(job_.save_every_seconds);
  if (late) mine.checkpoint_request = newest + 1;
}

bool CheckpointSchedule::due(std::int64_t step, const WorkerSignals& all) const {
  if (plan_.reaches_multiple(step, job_.save_every_steps)) return true;
  return all.checkpoint_request == last_ + 1;  // an older request already has its checkpoint
}

void CheckpointSchedule::start(std::int64_t step, bool last) {
  settle();
  const TimePoint since = Clock::now();
  begin_(step, last);
  pending_ = step;
  pending_since_ = since;
  last_time_ = Clock::now().time_since_epoch().count();
  last_ = step;
  record(step, false, since);
}

void CheckpointSchedule::settle() {
  if (pending_ == 0) return;
  const TimePoint since = Clock::now();
  const std::int64_t published = pending_;
  writer_.wait();
  comm_.barrier();  // every worker's part is on disk
  publish();
  comm_.barrier();  // the checkpoint is visible before any worker continues or ends
  record(published, true, since);
}

void CheckpointSchedule::publish() {
  if (comm_.rank() == 0) published_bytes_ = writer_.publish(pending_);
  pending_ = 0;
}

void CheckpointSchedule::record(std::int64_t step, bool published, TimePoint since) {
  CheckpointEvent event{.step = step, .published = published, .seconds = seconds_since(since)};
  if (published) {
    event.since_begin = seconds_since(pending_since_);
    event.bytes = published_bytes_;
  }
  events_.push_back(event);
}

}  // namespace pfc
