// A temporary network partition of this host.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/chaos/cut_routes.h"
#include "common/files/fd.h"

namespace pfc {

/// Cuts this host off from the given addresses, from construction on. A child process, which
/// outlives this one, removes the routes at the deadline. Not thread-safe.
class Partition {
 public:
  /// Throws std::runtime_error if the child cannot be started or routes cannot be added.
  Partition(const std::vector<std::string>& addresses, std::chrono::milliseconds lasts);
  /// Removes the routes and waits until that is done.
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  /// Returns the pid of the child.
  [[nodiscard]] pid_t healer() const { return healer_; }

 private:
  const CutRoutes routes_;
  pid_t healer_ = -1;
  Fd fd_;  ///< write end of a pipe; a byte makes the healer act now
};

}  // namespace pfc
