#include "worker/report/stack_trace.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace pfc {
namespace {

// Calls only what may be called in a signal handler; backtrace() may from its second call on.
void write_stack(int) {
  const int before = errno;
  std::array<void*, 64> frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  constexpr std::string_view kTitle = "pfc-worker: the training thread is in:\n";
  static_cast<void>(!::write(STDERR_FILENO, kTitle.data(), kTitle.size()));
  ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  errno = before;
}

}  // namespace

void write_stack_on_signal() {
  std::array<void*, 1> frame;
  ::backtrace(frame.data(), 1);  // the first call loads a library and allocates
  struct sigaction action {};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace pfc
