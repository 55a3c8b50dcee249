// Writes stdout and stderr on separate threads, so that the event loop never blocks on a pipe
// without a reader, a stopped terminal, or a slow disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "coordinator/terminal/output.h"

namespace pfc {

/// Used by one thread. Buffers up to kMaxBytes per output (in total if both are the same file).
/// Beyond that, workers' output is dropped, and a line says how much. Another kMaxMessageBytes are
/// reserved for the coordinator's own messages.
class BackgroundOutput final : public Output {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  static constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 10;

  /// Does not own the file descriptors. Throws std::system_error if no thread can be started.
  BackgroundOutput(int out, int err);
  /// Writes the rest as finish() does, for up to 2 s without progress. A write that is still
  /// blocked then continues to use the descriptor.
  ~BackgroundOutput();
  BackgroundOutput(const BackgroundOutput&) = delete;
  BackgroundOutput& operator=(const BackgroundOutput&) = delete;

  void write(Kind kind, std::string_view text) override;
  [[nodiscard]] std::uint64_t dropped_lines() const override;

  /// Writes the program's result, of any size, to `out`. Blocks until the reader has read all of
  /// it or closed the pipe.
  void write_result(std::string_view text);

  /// Waits until everything is written, or nothing was written for `patience`. Returns whether
  /// everything was written.
  bool finish(std::chrono::milliseconds patience);

 private:
  struct Lane;
  // Shared with its thread, which may outlive this object: a blocked write cannot be stopped.
  std::vector<std::shared_ptr<Lane>> lanes_;
  const int out_;
  const int err_;
};

}  // namespace pfc
