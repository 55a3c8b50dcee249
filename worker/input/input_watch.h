// Warns when loading the images slows down training.
#pragma once

#include <optional>
#include <string>

#include "common/clock.h"

namespace pfc {

/// The resources that this worker's input uses; the warnings mention them.
struct InputMeans {
  int loader_threads = 0;  ///< num_workers
  int cores = 0;           ///< cores per worker of this host
};

/// Evaluates windows of one minute, and warns at most every ten minutes. Used by one thread.
class InputWatch {
 public:
  static constexpr double kWindow = 60;    ///< length of a window in seconds
  static constexpr double kPause = 600;    ///< seconds between two warnings
  static constexpr double kAllowed = 0.1;  ///< largest acceptable fraction of time spent waiting

  explicit InputWatch(const InputMeans& means) : means_(means) {}

  /// Adds a step of `seconds`, of which `waited` were spent waiting for this worker's own images.
  /// Its loader spent `loader_seconds` on `images`, summed over all threads. If the input slows
  /// down training, returns a warning for the log: how much, why, and what to do.
  std::optional<std::string> step(double seconds, double waited, double loader_seconds,
                                  double images, TimePoint now = Clock::now());

 private:
  const InputMeans means_;
  double seconds_ = 0, waited_ = 0, loader_seconds_ = 0, images_ = 0;  // of this window
  std::optional<TimePoint> warned_;
};

}  // namespace pfc
