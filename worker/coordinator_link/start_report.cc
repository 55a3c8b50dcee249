#include "worker/coordinator_link/start_report.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace pfc {

bool has_worked(const ProcessWork& before, const ProcessWork& now) {
  // The CPU time that counts as work. The connection to the coordinator uses much less in kTick.
  constexpr double kSeconds = 0.05;
  constexpr std::uint64_t kBytes = 256 << 10;
  return now.cpu_seconds - before.cpu_seconds >= kSeconds ||
         now.bytes_read - before.bytes_read >= kBytes;
}

StartReport::StartReport(CoordinatorClient* client, bool logs, std::chrono::milliseconds tick)
    : client_(client), logs_(logs), tick_(tick), progress_{.starting = true} {
  if (client_ != nullptr) thread_ = std::thread(&StartReport::watch, this);
}

StartReport::~StartReport() {
  if (client_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
}

void StartReport::tell(const std::string& what) {
  if (client_ != nullptr) {
    const std::lock_guard lock(mutex_);
    progress_.phase = what;
    client_->report(progress_);
  }
  if (!logs_ || Clock::now() - logged_ < kPause) return;
  logged_ = Clock::now();
  spdlog::info("starting: {}", what);
}

void StartReport::watch() {
  ProcessWork before = process_work();
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, tick_, [this] { return ended_; })) {
    const ProcessWork now = process_work();
    if (has_worked(std::exchange(before, now), now)) {
      ++progress_.work;
      client_->report(progress_);
    }
  }
}

}  // namespace pfc
