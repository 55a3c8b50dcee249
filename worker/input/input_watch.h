// Says when the input holds training back.
#pragma once

#include <optional>
#include <string>

#include "common/clock.h"

namespace pfc {

/// What this worker's input has, for the advice.
struct InputMeans {
  int loader_threads = 0;  ///< num_workers
  int cores = 0;           ///< for each worker of this host
};

/// Looks at the last minute, and speaks at most every ten. Belongs to one thread.
class InputWatch {
 public:
  static constexpr double kWindow = 60;    ///< seconds of training that are looked at
  static constexpr double kPause = 600;    ///< seconds between two warnings
  static constexpr double kAllowed = 0.1;  ///< part of the time that may be waited

  explicit InputWatch(const InputMeans& means) : means_(means) {}

  /// After a step of `seconds`, of which `waited` for this worker's own images; its loader has
  /// worked `loader_seconds` on `images`, in all threads together. Returns a line for the log where
  /// the input holds training back: how much, why, and what to do.
  std::optional<std::string> step(double seconds, double waited, double loader_seconds,
                                  double images, TimePoint now = Clock::now());

 private:
  const InputMeans means_;
  double seconds_ = 0, waited_ = 0, loader_seconds_ = 0, images_ = 0;  // of this window
  std::optional<TimePoint> warned_;
};

}  // namespace pfc
