// What ends the processes that a worker has started when the agent itself is killed.
#pragma once

#include <sys/types.h>

namespace pfc {

/// A process of its own, which does nothing but wait for the end of this one, however that comes,
/// and then sends SIGKILL to the process groups that it was told of. The kernel ends the workers of
/// a dead agent by itself (SpawnOptions::parent_death_signal), but not what they have started.
class GroupGuard {
 public:
  /// Starts it. Where no process is left there is none: is_there() tells.
  GroupGuard();
  /// Ends it, and with it the groups that were not taken back.
  ~GroupGuard();
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  [[nodiscard]] bool is_there() const { return pid_ > 0; }
  /// The group of this process is to end with this one.
  void watch(pid_t group) { tell(group); }
  /// It has ended: its number may soon be another's.
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t number) const;

  pid_t pid_ = -1;
  int fd_ = -1;  ///< its end tells it that this process has ended
};

}  // namespace pfc
