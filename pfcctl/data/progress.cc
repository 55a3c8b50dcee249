#include "pfcctl/data/progress.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "common/one_line.h"

namespace pfc {
namespace {

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::Progress(const std::string& doing, std::string units)
    : doing_(one_line(doing)),
      units_(std::move(units)),
      terminal_(isatty(STDERR_FILENO) == 1),
      printed_(Clock::now()) {}

Progress::~Progress() {
  if (terminal_ && shown_) std::fputs("\n", stderr);
}

void end_at_interrupt(const std::string& /*what*/) { InterruptGuard::expect_none(); }

void Progress::show(std::int64_t done, std::int64_t all) {
  InterruptGuard::expect_none();
  if (first_ < 0) first_ = done;
  const bool last = all > 0 && done >= all;
  const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000);
  const TimePoint now = Clock::now();
  if (now - printed_ < pause && !(last && terminal_)) return;
  printed_ = now;
  print(done, all, last);
}

void Progress::print(std::int64_t done, std::int64_t all, bool last) {
  const double seconds = seconds_since(start_);
  const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  std::string line = doing_ + ": ";
  if (all > 0) {
    line += fmt::format("{:3} %  {} of {} {}", 100 * done / all, done, all, units_);
  } else {
    line += fmt::format("{} {}", done, units_);
  }
  if (rate > 0) line += fmt::format(", {:.0f} per second", rate);
  if (rate > 0 && all > 0 && !last) {
    line += fmt::format(", {} left", duration_text(static_cast<double>(all - done) / rate));
  }
  std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace pfc
