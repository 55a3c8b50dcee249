// Kills the processes that workers have started if the agent itself is killed.
#pragma once

#include <sys/types.h>

#include "common/files/fd.h"

namespace pfc {

/// A child process that waits for the end of this process, for any reason, and then sends SIGKILL
/// to the registered process groups. When an agent dies, the kernel kills its workers
/// (SpawnOptions::parent_death_signal), but not the processes that they have started.
class GroupGuard {
 public:
  /// Starts the child. If fork() fails, is_there() returns false.
  GroupGuard();
  /// Ends the child, which kills the groups that are still registered.
  ~GroupGuard();
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  [[nodiscard]] bool is_there() const { return pid_ > 0; }
  /// Registers a process group to be killed when this process ends.
  void watch(pid_t group) { tell(group); }
  /// Removes a group that has ended, because its number may be reused.
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t number) const;

  pid_t pid_ = -1;
  Fd fd_;  ///< write end of a pipe; closing it signals the end of this process
};

}  // namespace pfc
