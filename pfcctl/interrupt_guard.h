// Ctrl-C while a verb has something to clean away or to end elsewhere.
#pragma once

namespace pfc {

/// While it lives, SIGINT and SIGTERM do not end the program, but are told by expect_none(). One at
/// a time; belongs to one thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  ///< signals have their old effect again
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Throws ExitStatus (pfcctl/verbs.h) of 128 + its number after a signal. Cheap. Without a guard
  /// there is none.
  static void expect_none();
};

}  // namespace pfc
