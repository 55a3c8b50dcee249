// Prints the workers' output and the coordinator's messages, and on a terminal a progress line
// below them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/log.h"
#include "coordinator/terminal/output.h"

namespace pfc {

/// Used on the event loop only. Draws the progress line only if `interactive`, and writes
/// everything else above it.
class Terminal {
 public:
  /// Does not own the output. `colour`: colours messages with a severity.
  Terminal(Output& output, bool interactive, bool colour = false)
      : output_(output), interactive_(interactive), colour_(colour) {}
  ~Terminal() { clear_progress(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Prints a worker's line to stdout or stderr, as the worker did, without control characters.
  /// Lines of ranks other than 0 begin with "[rank 1] ". So does a line of rank 0 that looks like a
  /// message of the coordinator.
  void worker_line(Rank rank, bool is_stderr, std::string_view line);
  /// Prints a message of the coordinator to stderr (common/log.h): "pfc-coordinator: line".
  void note(std::string_view line, Severity severity = Severity::kNote);
  void progress(std::string line);
  void clear_progress();
  /// Returns the number of lines that were dropped because the output was not read fast enough.
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
