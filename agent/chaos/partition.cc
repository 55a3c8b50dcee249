#include "agent/chaos/partition.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <stdexcept>

#include "common/files/file_error.h"

namespace pfc {
namespace {

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);  // also counts while the machine sleeps
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

/// Runs in the child after fork() of a multi-threaded program: only async-signal-safe calls, no
/// allocation.
[[noreturn]] void heal_later(const CutRoutes& routes, int fd, std::int64_t deadline) {
  setsid();  // protects from a terminal's Ctrl-C and from signals to the agent's group
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, "pfc-agent-heal");
  dup2(fd, STDIN_FILENO);
  close_range(STDIN_FILENO + 1, ~0U, 0);
  pollfd told{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  for (std::int64_t left = deadline - now_ms(); left > 0; left = deadline - now_ms()) {
    const int wait = static_cast<int>(std::min<std::int64_t>(left, INT_MAX));
    if (poll(&told, 1, wait) <= 0) continue;
    if ((told.revents & POLLIN) != 0) break;
    told.fd = -1;  // the agent was killed: keep the partition until its deadline
  }
  routes.remove();
  _exit(0);
}

}  // namespace

Partition::Partition(const std::vector<std::string>& addresses, std::chrono::milliseconds lasts)
    : routes_(addresses) {
  if (routes_.count() == 0) {
    throw std::runtime_error("found no address to cut off, other than loopback addresses");
  }
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot create a pipe: " + file_error_text(errno));
  }
  const Fd read_end(ends[0]);
  fd_ = Fd(ends[1]);
  const std::int64_t deadline = now_ms() + lasts.count();
  healer_ = fork();
  const int error = errno;
  if (healer_ == 0) heal_later(routes_, read_end, deadline);
  if (healer_ < 0) {
    throw std::runtime_error("cannot start the process that would end the partition: " +
                             file_error_text(error) + "; raise the limit of processes (ulimit -u)");
  }
  try {
    routes_.add();
  } catch (const std::runtime_error&) {
    kill(healer_, SIGKILL);
    waitpid(healer_, nullptr, 0);
    throw;
  }
}

Partition::~Partition() {
  const char now = 0;
  while (write(fd_, &now, 1) < 0 && errno == EINTR) {
  }
  fd_.reset();
  while (waitpid(healer_, nullptr, 0) < 0 && errno == EINTR) {
  }
  routes_.remove();  // in case the child was killed
}

}  // namespace pfc
