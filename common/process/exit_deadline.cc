#include "common/process/exit_deadline.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace pfc {
namespace {

// Read by the signal handler, so it must be lock-free.
std::atomic<int> g_code{0};
static_assert(std::atomic<int>::is_always_lock_free);

void end_now(int) { _exit(g_code); }

}  // namespace

void end_process_after(std::chrono::seconds time, int code) noexcept {
  g_code = code;
  struct sigaction action {};
  action.sa_handler = end_now;
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(static_cast<unsigned>(time.count()));
}

}  // namespace pfc
