// A host that is cut off from others for a while.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/chaos/cut_routes.h"

namespace pfc {

/// Cuts this host off when it is made. A process of its own, which outlives this one however that
/// ends, mends it when the time is over. One thread at a time.
class Partition {
 public:
  /// Throws std::runtime_error: no process is left, or routes cannot be added.
  Partition(const std::vector<std::string>& addresses, std::chrono::milliseconds lasts);
  /// Mends it now, and waits until that is done.
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  /// Of that process.
  [[nodiscard]] pid_t healer() const { return healer_; }

 private:
  const CutRoutes routes_;
  pid_t healer_ = -1;
  int fd_ = -1;  ///< a byte tells the healer not to wait any longer
};

}  // namespace pfc
