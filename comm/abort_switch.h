// Ends all waits of a worker's Comms at once, also where they still connect.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "comm/comm.h"

namespace pfc {

/// Thread-safe. Outlives its guards.
class AbortSwitch {
 public:
  using Abort = std::function<void(const std::string& why)>;

  /// While it lives, abort() is passed on: to a Comm, which outlives it, or to a function that is
  /// called at most once, by any thread.
  class Guard {
   public:
    Guard(AbortSwitch& owner, Comm& comm);
    Guard(AbortSwitch& owner, Abort abort);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    AbortSwitch& owner_;
    std::list<Abort>::iterator place_;
  };

  /// Aborts everything that is guarded, and everything that will be. The first reason stays.
  void abort(const std::string& why);
  /// Why abort() was called; empty: it was not.
  [[nodiscard]] std::string reason() const;

 private:
  mutable std::mutex mutex_;
  std::list<Abort> guarded_;  // guarded by mutex_
  std::string why_;           // guarded by mutex_; empty: abort() was not called
};

}  // namespace pfc
