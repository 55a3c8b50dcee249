// What the person at the terminal sees: workers' output, notes, and one progress line below them.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace pfc {

/// On the event loop only. The progress line is drawn only where `interactive`; everything else is
/// written above it, and it is drawn again.
class Terminal {
 public:
  Terminal(std::ostream& out, std::ostream& err, bool interactive)
      : out_(out), err_(err), interactive_(interactive) {}
  ~Terminal() { clear_progress(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// A line of a worker: rank 0's as it is, the others' with "[rank 1] " before it.
  void worker_line(Rank rank, bool is_stderr, std::string_view line);
  /// "pfc: line" on stderr.
  void note(std::string_view line);
  void progress(std::string line);
  void clear_progress();

 private:
  void draw_progress();

  std::ostream& out_;
  std::ostream& err_;
  const bool interactive_;
  std::string progress_;
};

}  // namespace pfc
