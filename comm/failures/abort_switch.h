// Aborts all Comms of a worker, including those that are still connecting.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "comm/comm.h"

namespace pfc {

/// Thread-safe. Must outlive its guards.
class AbortSwitch {
 public:
  using Abort = std::function<void(const std::string& why)>;

  /// Registers a target of abort() for the lifetime of the guard. The target is a Comm, which must
  /// outlive the guard, or a function, which is called at most once and from any thread.
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

  /// Aborts all registered targets, and those registered later. Later calls do not replace the
  /// first reason.
  void abort(const std::string& why);
  /// Returns the reason given to abort(); empty if it was not called.
  [[nodiscard]] std::string reason() const;

 private:
  mutable std::mutex mutex_;
  std::list<Abort> guarded_;  // guarded by mutex_
  std::string why_;           // guarded by mutex_; empty until abort()
};

}  // namespace pfc
