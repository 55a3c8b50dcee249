// Whether somebody still waits for the last values of /metrics.
#pragma once

#include <chrono>
#include <deque>

#include "common/clock.h"

namespace pfc {

/// Prometheus reads /metrics every few seconds, and would miss how a job has ended if the
/// coordinator went at once. REQUIRES: told of scrapes alone (HttpRequest::scrape), so that who
/// reads by hand is not waited for.
class LastReading {
 public:
  /// `most`: how long a coordinator is held at most; 0: never.
  explicit LastReading(std::chrono::milliseconds most) : most_(most) {}

  /// Somebody has read.
  void read(TimePoint now);
  /// After so long everybody who reads regularly has read again; 0: nobody does.
  [[nodiscard]] std::chrono::milliseconds wait(TimePoint now) const;

 private:
  const std::chrono::milliseconds most_;
  std::deque<TimePoint> last_;  ///< oldest first
};

}  // namespace pfc
