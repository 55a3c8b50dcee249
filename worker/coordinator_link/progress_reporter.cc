#include "worker/coordinator_link/progress_reporter.h"

#include <string_view>
#include <utility>

namespace pfc {
namespace {

// First phase of a step. The worker is still starting until the first images arrive.
constexpr std::string_view kFirstPhase = "data_wait";

}  // namespace

ProgressReporter::ProgressReporter(CoordinatorClient& client, const PhaseTimer& phase,
                                   Options options)
    : client_(client),
      phase_(phase),
      options_(std::move(options)),
      next_(options_.start),
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
  progress.vitals = next_.vitals;
  progress.phases.insert(progress.phases.begin(), next_.phases.begin(), next_.phases.end());
  next_ = std::move(progress);
  changed_ = true;
}

void ProgressReporter::add_phases(const std::vector<PhaseTimer::Sample>& samples) {
  const std::lock_guard lock(mutex_);
  for (const PhaseTimer::Sample& s : samples) next_.phases.push_back({s.phase, s.seconds});
  changed_ = true;
}

void ProgressReporter::saved(const Progress& so_far) {
  const std::lock_guard lock(mutex_);
  next_.saved_step = so_far.saved_step;
  next_.checkpoint_step = so_far.checkpoint_step;
  next_.memory_step = so_far.memory_step;
  next_.checkpoints = so_far.checkpoints;
  changed_ = true;
}

void ProgressReporter::report() {
  const std::lock_guard lock(mutex_);
  report_changes();
}

void ProgressReporter::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, options_.tick, [this] { return ended_; })) {
    lock.unlock();
    look_at_vitals();
    lock.lock();
    report_changes();
  }
}

/// Does not hold the mutex while it reads the vitals: a driver may be slow, and training must not
/// wait for it.
void ProgressReporter::look_at_vitals() {
  if (!options_.vitals) return;
  if (vitals_at_ && Clock::now() - *vitals_at_ < options_.vitals_pause) return;
  const ProcessVitals vitals = options_.vitals();
  vitals_at_ = Clock::now();
  const std::lock_guard lock(mutex_);
  next_.vitals = vitals;
  changed_ = true;
}

void ProgressReporter::report_changes() {
  const char* const phase = phase_.current();
  std::vector<Progress::CommTotal> comm = options_.comms();
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
