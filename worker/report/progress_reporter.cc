#include "worker/report/progress_reporter.h"

#include <string_view>
#include <utility>

namespace pfc {
namespace {

// Of a step: it waits for its images. As long as the first ones do not come, nothing has begun.
constexpr std::string_view kFirstPhase = "data_wait";

}  // namespace

ProgressReporter::ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase, Comms comms,
                                   Progress start, std::chrono::milliseconds tick)
    : client_(client),
      phase_(phase),
      comms_(std::move(comms)),
      tick_(tick),
      next_(std::move(start)),
      thread_(&ProgressReporter::watch, this) {}

ProgressReporter::~ProgressReporter() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
  report();
}

void ProgressReporter::update(Progress progress) {
  const std::lock_guard lock(mutex_);
  progress.phase = std::move(next_.phase);
  progress.comm = std::move(next_.comm);
  progress.phases.insert(progress.phases.begin(), next_.phases.begin(), next_.phases.end());
  next_ = std::move(progress);
  changed_ = true;
}

void ProgressReporter::add_phases(const std::vector<PhaseTimer::Sample>& samples) {
  const std::lock_guard lock(mutex_);
  for (const PhaseTimer::Sample& s : samples) next_.phases.push_back({s.phase, s.seconds});
  changed_ = true;
}

void ProgressReporter::saved(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  next_.saved_step = step;
  changed_ = true;
}

void ProgressReporter::report() {
  const std::lock_guard lock(mutex_);
  report_changes();
}

void ProgressReporter::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, tick_, [this] { return ended_; })) report_changes();
}

void ProgressReporter::report_changes() {
  const char* const phase = phase_.current();
  std::vector<Progress::CommTotal> comm = comms_();
  if (!changed_ && next_.phase == phase && next_.comm == comm) return;
  next_.phase = phase;
  next_.comm = std::move(comm);
  const std::string_view running = phase;
  if (running != PhaseTimer::kNone && running != kFirstPhase) next_.starting = false;
  client_.report(next_);
  next_.phases.clear();  // each sample is reported once
  changed_ = false;
}

}  // namespace pfc
