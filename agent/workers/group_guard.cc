#include "agent/workers/group_guard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <utility>

namespace pfc {
namespace {

constexpr std::size_t kMostGroups = 4'096;  // a host has at most 1,024 slots

/// Runs in the child after fork() of a program that may be multi-threaded: only async-signal-safe
/// calls, no allocation.
[[noreturn]] void guard(int fd) {
  setpgid(0, 0);  // protects from a terminal's Ctrl-C
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, "pfc-agent-guard");
  dup2(fd, STDIN_FILENO);
  // Closes the pipe's write end and the inherited outputs, because the reader of an output waits
  // until every process that has it open has closed it.
  close_range(STDIN_FILENO + 1, ~0U, 0);
  std::array<pid_t, kMostGroups> groups{};
  std::size_t count = 0;
  pid_t told = 0;
  while (true) {
    const ssize_t got = read(STDIN_FILENO, &told, sizeof(told));
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(told)) break;
    if (told > 0 && count < groups.size()) groups[count++] = told;
    for (std::size_t i = 0; told < 0 && i < count; ++i) {
      if (groups[i] == -told) groups[i--] = groups[--count];
    }
  }
  for (std::size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  pid_ = fork();
  if (pid_ == 0) guard(read_end);
  if (pid_ < 0) return;
  fd_ = std::move(write_end);
  fcntl(fd_, F_SETFL, O_NONBLOCK);  // a stopped guard must not block this process
}

GroupGuard::~GroupGuard() {
  if (pid_ <= 0) return;
  fd_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GroupGuard::tell(pid_t number) const {
  if (fd_ < 0) return;
  while (write(fd_, &number, sizeof(number)) < 0 && errno == EINTR) {
  }
}

}  // namespace pfc
