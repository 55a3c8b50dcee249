// Ends all waits of a worker's Comms at once.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "worker/comm/comm.h"

namespace pfc {

/// Thread-safe. Outlives its guards.
class AbortSwitch {
 public:
  /// While it lives, abort() is passed on to the Comm, which outlives it.
  class Guard {
   public:
    Guard(AbortSwitch& owner, Comm& comm);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    AbortSwitch& owner_;
    Comm& comm_;
  };

  /// Aborts every Comm that is guarded, and every one that will be. The first reason stays.
  void abort(const std::string& why);

 private:
  std::mutex mutex_;
  std::vector<Comm*> comms_;  // guarded by mutex_
  std::string why_;           // guarded by mutex_; empty: abort() was not called
};

}  // namespace pfc
