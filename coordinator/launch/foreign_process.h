// A process that another program has started, and that this one takes over.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace pfc {

/// Its number cannot become another process's while this object lives.
class ForeignProcess {
 public:
  /// The process with this number, if it lives and was started by this user with NAME=VALUE in its
  /// environment: otherwise the number is another process's now.
  static std::optional<ForeignProcess> find(pid_t pid, const std::string& name,
                                            const std::string& value);
  ~ForeignProcess();
  ForeignProcess(ForeignProcess&& other) noexcept;
  ForeignProcess& operator=(ForeignProcess&& other) noexcept;
  ForeignProcess(const ForeignProcess&) = delete;
  ForeignProcess& operator=(const ForeignProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_ended() const { return wait(std::chrono::milliseconds{0}); }
  /// Waits for its end, at most `limit`. Returns whether it has ended.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const;
  void send(int signal) const;
  /// Its working folder; empty where that cannot be seen.
  [[nodiscard]] std::filesystem::path working_folder() const;

 private:
  ForeignProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}

  pid_t pid_;
  int fd_;  ///< a pidfd
};

}  // namespace pfc
