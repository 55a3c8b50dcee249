// Destination of the coordinator's text: stdout and stderr.
#pragma once

#include <cstdint>
#include <string_view>

namespace pfc {

class Output {
 public:
  enum class Kind {
    kWorkerStdout,  ///< line of a worker; to stdout
    kWorkerStderr,  ///< line of a worker; to stderr
    kProgress,      ///< parts of the progress line; to stderr
    kMessage,       ///< the coordinator's own messages; to stderr
  };

  /// Writes text: whole lines, except for kProgress.
  virtual void write(Kind kind, std::string_view text) = 0;
  /// Returns the number of lines that were dropped since the start, because the output was not read
  /// fast enough.
  [[nodiscard]] virtual std::uint64_t dropped_lines() const { return 0; }

 protected:
  ~Output() = default;
};

}  // namespace pfc
