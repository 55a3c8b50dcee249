// Where the coordinator's text goes: stdout and stderr.
#pragma once

#include <cstdint>
#include <string_view>

namespace pfc {

class Output {
 public:
  enum class Kind {
    kWorkerStdout,  ///< a line that a worker has written; to stdout
    kWorkerStderr,  ///< likewise; to stderr
    kProgress,      ///< parts of the progress line; to stderr
    kMessage,       ///< the coordinator's own messages; to stderr
  };

  /// Takes text in whole lines, but for kProgress.
  virtual void write(Kind kind, std::string_view text) = 0;
  /// Lines that were dropped since the start, because nobody read the output fast enough.
  [[nodiscard]] virtual std::uint64_t dropped_lines() const { return 0; }

 protected:
  ~Output() = default;
};

}  // namespace pfc
