#include "worker/report/stack_trace.h"

#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <string_view>

namespace pfc {
namespace {

constexpr std::array kFaults{SIGSEGV, SIGBUS};

// State of the one thread that writes. backtrace() fills `frames` in order, so if a frame cannot be
// read, the frames before it are available.
std::atomic_flag g_writing = ATOMIC_FLAG_INIT;
pthread_t g_writer;
sigjmp_buf g_unreadable;
std::array<void*, 64> g_frames;
std::array<struct sigaction, kFaults.size()> g_before;

void restore_faults() {
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    ::sigaction(kFaults[i], &g_before[i], nullptr);
  }
}

// Handles a fault in another thread: restores the handlers, so the fault recurs and has its normal
// effect.
void on_fault(int) {
  if (::pthread_equal(::pthread_self(), g_writer) != 0) siglongjmp(g_unreadable, 1);
  restore_faults();
}

void catch_faults() {
  struct sigaction action {};
  action.sa_handler = on_fault;
  ::sigemptyset(&action.sa_mask);
  sigset_t faults;
  ::sigemptyset(&faults);
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    ::sigaction(kFaults[i], &action, &g_before[i]);
    ::sigaddset(&faults, kFaults[i]);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);  // a blocked fault would end the process
}

void write_text(std::string_view text) {
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

/// Returns whether the stack was read completely. The signal may have interrupted code that leaves
/// the stack invalid for a moment.
bool read_stack() {
  if (sigsetjmp(g_unreadable, 1) != 0) return false;
  catch_faults();
  static_cast<void>(::backtrace(g_frames.data(), static_cast<int>(g_frames.size())));
  return true;
}

// Calls only async-signal-safe functions; backtrace() is safe from its second call on.
void write_stack(int) {
  if (g_writing.test_and_set()) return;
  const int before = errno;
  g_writer = ::pthread_self();
  g_frames.fill(nullptr);
  const bool whole = read_stack();
  restore_faults();
  write_text("pfc-worker: the training thread is in:\n");
  const auto end = std::find(g_frames.begin(), g_frames.end(), nullptr);
  ::backtrace_symbols_fd(g_frames.data(), static_cast<int>(end - g_frames.begin()), STDERR_FILENO);
  if (!whole) write_text("pfc-worker: the rest of the stack cannot be read\n");
  errno = before;
  g_writing.clear();
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
