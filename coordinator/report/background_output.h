// Writes stdout and stderr on threads of their own, so that the event loop never waits for a pipe
// that nobody reads, a terminal that was stopped, or a slow disk.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "coordinator/report/output.h"

namespace pfc {

/// Used by one thread. What cannot be written yet is kept, at most kMaxBytes of each of the two
/// outputs (of both together where they are the same file); then what workers write is dropped,
/// and a line says there how much. The coordinator's own messages have another kMaxMessageBytes.
class BackgroundOutput final : public Output {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  static constexpr std::size_t kMaxMessageBytes = std::size_t{256} << 10;

  /// Borrows the file descriptors. Throws std::system_error when no thread can be started.
  BackgroundOutput(int out, int err);
  /// Writes what is left, as finish() does, for at most 2 s without any progress. The rest is lost.
  /// A write that is under way then goes on with the descriptor.
  ~BackgroundOutput();
  BackgroundOutput(const BackgroundOutput&) = delete;
  BackgroundOutput& operator=(const BackgroundOutput&) = delete;

  void write(Kind kind, std::string_view text) override;
  [[nodiscard]] std::uint64_t dropped_lines() const override;

  /// Writes the program's result, of any size, to `out`. Blocks until the reader has read all of it
  /// or has closed the pipe.
  void write_result(std::string_view text);

  /// Returns once everything has been written, or nothing has been for `patience`. Returns whether
  /// everything was.
  bool finish(std::chrono::milliseconds patience);

 private:
  struct Lane;
  // Shared with its thread, which may outlive this object: a write that blocks cannot be ended.
  std::vector<std::shared_ptr<Lane>> lanes_;
  const int out_;
  const int err_;
};

}  // namespace pfc
