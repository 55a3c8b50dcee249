#include "common/process/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/error_text.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStartLimit{10'000};  // time from fork to exec; a file system may block it
constexpr milliseconds kEndLimit{5'000};     // time from SIGKILL to the end of the process

/// Both ends of a pipe: for reading, for writing.
using Pipe = std::array<Fd, 2>;

Pipe open_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Returns an anonymous file that contains this text, positioned at its start; none if the text is
/// empty.
Fd open_input(const std::string& text) {
  if (text.empty()) return {};
  Fd fd(memfd_create("pfc-input", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(text.size());
  if (fd < 0 || pwrite(fd, text.data(), text.size(), 0) != size) {
    throw std::system_error(errno, std::generic_category(), "stdin of a program");
  }
  return fd;
}

/// Everything the child needs, allocated before the fork. After a fork in a multi-threaded
/// program, only async-signal-safe calls are allowed.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<std::string> storage;
  cpu_set_t cpus{};
};

Prepared prepare_spawn(const SpawnOptions& options) {
  Prepared prepared;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    bool replaced = false;
    for (const auto& [name, value] : options.environment) {
      replaced = replaced || (text.starts_with(name) && text.substr(name.size()).starts_with('='));
    }
    if (!replaced) variables.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) {
    std::string& variable = variables.emplace_back(name);
    variable.append("=").append(value);
  }
  prepared.storage.push_back(options.program.string());
  for (const std::string& argument : options.arguments) prepared.storage.push_back(argument);
  const std::size_t argument_count = prepared.storage.size();
  for (std::string& variable : variables) prepared.storage.push_back(std::move(variable));
  for (std::size_t i = 0; i < prepared.storage.size(); ++i) {
    auto& list = i < argument_count ? prepared.arguments : prepared.environment;
    list.push_back(prepared.storage[i].data());
  }
  for (const int cpu : options.cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &prepared.cpus);
  }
  prepared.arguments.push_back(nullptr);
  prepared.environment.push_back(nullptr);
  return prepared;
}

/// Makes the exec close all file descriptors from `first`, because an inherited listening socket
/// would keep its port in use.
void close_on_exec_from(int first) {
  if (close_range(first, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  constexpr int kMany = 65'536;  // for kernels before 5.11
  for (int fd = first; fd < kMany; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/// Runs in the child. Returns only if the exec failed.
void become(const Prepared& prepared, int parent_death_signal, pid_t parent, int in, int out,
            int err) {
  setpgid(0, 0);
  if (parent_death_signal != 0) {
    prctl(PR_SET_PDEATHSIG, parent_death_signal);
    if (getppid() != parent) _exit(1);  // the parent died before prctl took effect
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // NOLINT(concurrency-mt-unsafe): the only thread
  // Ignored signals would stay ignored across the exec, and libraries ignore SIGPIPE, for example.
  // SIGHUP is not changed: nohup ignores it for all programs that it starts.
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGXFSZ}) signal(number, SIG_DFL);
  const int input = in >= 0 ? in : open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  close_on_exec_from(STDERR_FILENO + 1);
  if (CPU_COUNT(&prepared.cpus) > 0) sched_setaffinity(0, sizeof(prepared.cpus), &prepared.cpus);
  execve(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
}

/// Returns the errno that the child wrote to the pipe, or 0 if the exec succeeded. Returns
/// ETIMEDOUT after kStartLimit.
int read_failure(int fd) {
  pollfd pipe{.fd = fd, .events = POLLIN, .revents = 0};
  const auto deadline = Clock::now() + kStartLimit;
  int ready = 0;
  do {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    ready = ::poll(&pipe, 1, static_cast<int>(std::max(left.count(), milliseconds::rep{0})));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return ETIMEDOUT;
  int reason = 0;
  ssize_t got = 0;
  do {
    got = read(fd, &reason, sizeof(reason));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(reason) ? reason : 0;  // 0: the exec closed the pipe
}

/// Reaps a killed child. If a file system or driver keeps it from exiting in time, it is left to
/// the process that adopts it.
void reap(pid_t pid) {
  const auto deadline = Clock::now() + kEndLimit;
  while (waitpid(pid, nullptr, WNOHANG) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds{1});
  }
}

std::string signal_name(int number) {
  const char* abbreviation = sigabbrev_np(number);
  return abbreviation == nullptr ? "unknown" : std::string("SIG") + abbreviation;
}

}  // namespace

std::string describe(const ProcessExit& exit) {
  if (exit.signal == 0) return "exited with code " + std::to_string(exit.code);
  return "killed by signal " + std::to_string(exit.signal) + " (" + signal_name(exit.signal) + ")";
}

ChildProcess::ChildProcess(const SpawnOptions& options) {
  const Prepared prepared = prepare_spawn(options);
  const Fd input = open_input(options.input);
  Pipe failure = open_pipe();
  Pipe out, err;
  if (options.capture_output) {
    out = open_pipe();
    err = open_pipe();
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(prepared, options.parent_death_signal, parent, input, out[1], err[1]);
    const int reason = errno;
    [[maybe_unused]] const auto written = write(failure[1], &reason, sizeof(reason));
    _exit(kCannotStartCode);
  }
  if (pid_ < 0) {
    const std::system_error error(errno, std::generic_category(), "fork");
    throw std::runtime_error(options.program.string() + ": cannot be started: " + text_of(error));
  }
  setpgid(pid_, pid_);  // in both processes, because either may run first
  failure[1].reset();
  if (const int reason = read_failure(failure[0]); reason != 0) {
    kill(pid_, SIGKILL);
    reap(pid_);
    throw InputError(
        options.program.string() +
        ": cannot be started: " + std::generic_category().message(reason) +
        "; expected this program in the folder of the program that starts it; install both "
        "together");
  }
  stdout_ = std::move(out[0]);
  stderr_ = std::move(err[0]);
}

ChildProcess::~ChildProcess() {
  stdout_.reset();
  stderr_.reset();
  if (exit_) return;
  kill(-pid_, SIGKILL);
  reap(pid_);
}

std::optional<ProcessExit> ChildProcess::poll() {
  if (exit_) return exit_;
  siginfo_t info{};
  // Do not reap first: while the zombie exists, its group's number cannot be reused.
  if (waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_ = WIFSIGNALED(status) ? ProcessExit{.signal = WTERMSIG(status)}
                              : ProcessExit{.code = WEXITSTATUS(status)};
  return exit_;
}

void ChildProcess::send(int signal) {
  if (!exit_) kill(-pid_, signal);
}

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace pfc
