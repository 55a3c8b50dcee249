// What the coordinator prints: the workers' output, its own messages, and on a terminal one
// progress line below them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/log.h"
#include "coordinator/report/output.h"

namespace pfc {

/// Used on the event loop only. The progress line is drawn only where `interactive`; everything
/// else is written above it.
class Terminal {
 public:
  /// Borrows the output. `colour`: messages with a severity are coloured.
  Terminal(Output& output, bool interactive, bool colour = false)
      : output_(output), interactive_(interactive), colour_(colour) {}
  ~Terminal() { clear_progress(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// A line that a worker has written, to the same stream here, without control characters. Lines
  /// of rank 0 are otherwise unchanged; those of the others begin with "[rank 1] ", and so does one
  /// of rank 0 that looks like a message of the coordinator.
  void worker_line(Rank rank, bool is_stderr, std::string_view line);
  /// A message of the coordinator, on stderr (common/log.h): "pfc-coordinator: line".
  void note(std::string_view line, Severity severity = Severity::kNote);
  void progress(std::string line);
  void clear_progress();
  /// Lines that nobody has read in time, since the start.
  [[nodiscard]] std::uint64_t dropped_lines() const { return output_.dropped_lines(); }

 private:
  void erase_progress();
  void draw_progress();

  Output& output_;
  const bool interactive_;
  const bool colour_;
  std::string progress_;
};

}  // namespace pfc
