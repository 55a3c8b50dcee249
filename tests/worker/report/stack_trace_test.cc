// Tests that SIGUSR1 makes a thread print its stack, whatever it interrupts.
#include "worker/report/stack_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#if defined(__x86_64__)
// Calls tgkill with an invalid return address on the stack: unwinding the stack then reads from
// address 16.
asm(R"(
  .text
  .type pfc_odd_frame, @function
pfc_odd_frame:
  .cfi_startproc
  movl $234, %eax
  pushq $16
  syscall
  popq %rcx
  ret
  .cfi_endproc
  .size pfc_odd_frame, . - pfc_odd_frame
)");
extern "C" long pfc_odd_frame(pid_t process, pid_t thread, long signal);
#endif

namespace pfc {
namespace {

TEST(StackTraceDeathTest, IsWrittenOnASignal) {
  EXPECT_EXIT(
      {
        write_stack_on_signal();
        std::raise(SIGUSR1);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "the training thread is in:");
}

#if defined(__x86_64__)
void signal_in_an_odd_frame() {
  static_assert(SYS_tgkill == 234);
  pfc_odd_frame(::getpid(), ::gettid(), SIGUSR1);
}

// ThreadSanitizer delays a signal until the next call that it intercepts; all frames are valid
// there.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsComeLater = true;
#else
constexpr bool kSignalsComeLater = false;
#endif

TEST(StackTraceDeathTest, UnreadableStackDoesNotEndTheProcess) {
  if (kSignalsComeLater) GTEST_SKIP() << "ThreadSanitizer holds signals back";
  EXPECT_EXIT(
      {
        write_stack_on_signal();
        for (int i = 0; i < 3; ++i) signal_in_an_odd_frame();
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "the rest of the stack cannot be read");
}

TEST(StackTraceDeathTest, LaterFaultsAreHandledAsBefore) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGSEGV, nullptr, &before);
  write_stack_on_signal();
  signal_in_an_odd_frame();
  ::sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}
#endif

}  // namespace
}  // namespace pfc
