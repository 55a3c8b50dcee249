#include "worker/report/progress_reporter.h"

#include <utility>

namespace pfc {

ProgressReporter::ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase,
                                   std::chrono::milliseconds tick)
    : client_(client),
      phase_(phase),
      tick_(tick),
      last_{.phase = phase.current()},
      thread_(&ProgressReporter::watch, this) {}

ProgressReporter::~ProgressReporter() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
}

void ProgressReporter::update(Progress progress) {
  const std::lock_guard lock(mutex_);
  last_ = std::move(progress);
  last_.phase = phase_.current();
  client_.report(last_);
  last_.phases.clear();  // samples are told once
}

void ProgressReporter::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, tick_, [this] { return ended_; })) report_phase();
}

void ProgressReporter::report_phase() {
  if (last_.phase == phase_.current()) return;
  last_.phase = phase_.current();
  client_.report(last_);
}

}  // namespace pfc
