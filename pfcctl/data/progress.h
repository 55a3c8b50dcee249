// Shows the progress of long work on data on stderr, and handles Ctrl-C.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/clock.h"
#include "pfcctl/interrupt_guard.h"

namespace pfc {

/// Called with the amount of finished work and the total. An exception from it ends the work.
using ShowProgress = std::function<void(std::int64_t done, std::int64_t all)>;

/// Shows "packing: 41 % 41,000 of 100,000 images, 8,210 a second, 8 s left": on a terminal in one
/// line that is rewritten, elsewhere as a line every ten seconds. While it exists, SIGINT and
/// SIGTERM end the program only through show(), so that partial results can be removed, or kept
/// for a later run. One at a time; use from one thread.
class Progress {
 public:
  /// `doing`: the activity ("packing"); `units`: the items ("images").
  Progress(const std::string& doing, std::string units);
  ~Progress();  ///< ends the line on a terminal; restores signal handling
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Updates the line. Cheap: may be called for each image. `all` is 0 if it is not known. After
  /// a signal throws ExitStatus (pfcctl/verbs.h) of 128 + its number.
  void show(std::int64_t done, std::int64_t all);
  /// Returns show() as a ShowProgress. Borrows this object, which may be a temporary in the call
  /// that receives the ShowProgress.
  [[nodiscard]] ShowProgress as_function() {
    return [this](std::int64_t done, std::int64_t all) { show(done, all); };
  }

 private:
  void print(std::int64_t done, std::int64_t all, bool last);

  const InterruptGuard guard_;
  const std::string doing_;
  const std::string units_;
  const bool terminal_;
  const TimePoint start_ = Clock::now();
  TimePoint printed_;
  std::int64_t first_ = -1;  ///< `done` of the first show(): work of an earlier run
  bool shown_ = false;
};

/// Throws after an interrupt, as show() does; for opening a data set (data/doing.h).
void end_at_interrupt(const std::string& what);

}  // namespace pfc
