// What the coordinator prints: the workers' output, its own messages, and on a terminal one
// progress line below them.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/log.h"

namespace pfc {

/// Used on the event loop only. The progress line is drawn only where `interactive`; everything
/// else is written above it.
class Terminal {
 public:
  /// Borrows the streams. `colour`: messages with a severity are coloured.
  Terminal(std::ostream& out, std::ostream& err, bool interactive, bool colour = false)
      : out_(out), err_(err), interactive_(interactive), colour_(colour) {}
  ~Terminal() { clear_progress(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// A line that a worker has written, to the same stream here. Lines of rank 0 are unchanged;
  /// those of the others begin with "[rank 1] ".
  void worker_line(Rank rank, bool is_stderr, std::string_view line);
  /// A message of the coordinator, on stderr (common/log.h): "pfc-coordinator: line".
  void note(std::string_view line, Severity severity = Severity::kNote);
  void progress(std::string line);
  void clear_progress();

 private:
  void draw_progress();

  std::ostream& out_;
  std::ostream& err_;
  const bool interactive_;
  const bool colour_;
  std::string progress_;
};

}  // namespace pfc
