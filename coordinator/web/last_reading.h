// Decides whether to wait for a last read of /metrics.
#pragma once

#include <chrono>
#include <deque>

#include "common/clock.h"

namespace pfc {

/// Prometheus reads /metrics every few seconds, and would miss the end of a job if the coordinator
/// exited immediately. REQUIRES: called only for scrapes (HttpRequest::scrape), so that no manual
/// reader is waited for.
class LastReading {
 public:
  /// `most`: maximum time to wait; 0: never wait.
  explicit LastReading(std::chrono::milliseconds most) : most_(most) {}

  /// Records a scrape.
  void read(TimePoint now);
  /// Returns the time after which every regular reader has read again; 0: no regular reader.
  [[nodiscard]] std::chrono::milliseconds wait(TimePoint now) const;

 private:
  const std::chrono::milliseconds most_;
  std::deque<TimePoint> last_;  ///< oldest first
};

}  // namespace pfc
