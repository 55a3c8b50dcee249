// Defers SIGINT and SIGTERM while a verb has something to clean up.
#pragma once

namespace pfc {

/// While a guard exists, SIGINT and SIGTERM do not end the program; expect_none() reports them. At
/// most one guard exists at a time. Used by one thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  ///< restores the old signal handlers
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Throws ExitStatus (pfcctl/verbs.h) of 128 + signal number after a signal. Cheap. Without a
  /// guard it never throws.
  static void expect_none();
};

}  // namespace pfc
