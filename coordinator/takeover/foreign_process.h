// A process that another program started and this one takes over.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "common/files/fd.h"

namespace pfc {

/// Its pid cannot be reused while this object exists.
class ForeignProcess {
 public:
  /// Returns the process with this pid, if it is alive and this user started it with NAME=VALUE in
  /// its environment. Otherwise the pid belongs to another process.
  static std::optional<ForeignProcess> find(pid_t pid, const std::string& name,
                                            const std::string& value);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_ended() const { return wait(std::chrono::milliseconds{0}); }
  /// Waits up to `limit`. Returns whether the process has ended.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const;
  void send(int signal) const;
  /// Returns the working folder; empty if unknown.
  [[nodiscard]] std::filesystem::path working_folder() const;

 private:
  ForeignProcess(pid_t pid, Fd fd) : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_;
  Fd fd_;  ///< a pidfd
};

}  // namespace pfc
