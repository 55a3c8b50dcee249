// The line on stderr that says how far a long work on data is, and Ctrl-C.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/clock.h"
#include "pfcctl/interrupt_guard.h"

namespace pfc {

/// Called with what is done and all that is to be done; what it throws ends the work.
using ShowProgress = std::function<void(std::int64_t done, std::int64_t all)>;

/// "packing: 41 %  41,000 of 100,000 images, 8,210 a second, 8 s left". On a terminal one line that
/// is written again and again, elsewhere a line every ten seconds. While it lives, SIGINT and
/// SIGTERM end the program only through show(), so that what was begun can be cleaned away or kept
/// to go on with. One at a time; belongs to one thread.
class Progress {
 public:
  /// `doing` says what, `units` of what, as in the line above.
  Progress(const std::string& doing, std::string units);
  ~Progress();  ///< ends the line on a terminal; signals have their old effect again
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap: may be called for each image. `all` is 0 where it is not known. Throws ExitStatus
  /// (pfcctl/verbs.h) of 128 + its number after a signal.
  void show(std::int64_t done, std::int64_t all);
  /// show(), for work that is given a ShowProgress. Borrows this object.
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
  std::int64_t first_ = -1;  ///< done at the first show(): what an earlier start has done
  bool shown_ = false;
};

/// For opening a data set while Progress lives (data/doing.h): throws as show() does.
void end_at_interrupt(const std::string& what);

}  // namespace pfc
