#include "agent/workers/worker_describer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/one_line.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostThreads = 4;  // threads to describe, besides the main thread
constexpr std::size_t kMostFrames = 6;   // functions to show of a kernel stack
constexpr std::size_t kLongestName = 200;
constexpr std::chrono::milliseconds kStackTime{500};  // time for a worker to write its stack

std::string read_proc_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A system call, and whether its first argument is a file descriptor.
struct Call {
  long number;
  const char* name;
  bool of_file;
};

// System calls in which a worker may be stuck. Others are reported by number.
constexpr std::array kCalls{
    Call{SYS_read, "read", true},
    Call{SYS_pread64, "pread64", true},
    Call{SYS_readv, "readv", true},
    Call{SYS_write, "write", true},
    Call{SYS_pwrite64, "pwrite64", true},
    Call{SYS_writev, "writev", true},
    Call{SYS_fsync, "fsync", true},
    Call{SYS_fdatasync, "fdatasync", true},
    Call{SYS_ftruncate, "ftruncate", true},
    Call{SYS_fallocate, "fallocate", true},
    Call{SYS_ioctl, "ioctl", true},
    Call{SYS_flock, "flock", true},
    Call{SYS_openat, "openat", false},
    Call{SYS_renameat2, "renameat2", false},
    Call{SYS_unlinkat, "unlinkat", false},
    Call{SYS_mmap, "mmap", false},
    Call{SYS_munmap, "munmap", false},
    Call{SYS_futex, "futex", false},
    Call{SYS_clock_nanosleep, "clock_nanosleep", false},
    Call{SYS_recvfrom, "recvfrom", false},
    Call{SYS_sendto, "sendto", false},
    Call{SYS_sendmsg, "sendmsg", false},
    Call{SYS_connect, "connect", false},
    Call{SYS_ppoll, "ppoll", false},
#ifdef SYS_poll
    Call{SYS_poll, "poll", false},
#endif
#ifdef SYS_epoll_wait
    Call{SYS_epoll_wait, "epoll_wait", false},
#endif
#ifdef SYS_rename
    Call{SYS_rename, "rename", false},
#endif
};

struct Thread {
  fs::path folder;
  std::string id;
  char state = '?';
  std::string call;        // "read of /data/train.rec"; empty: none, or not readable
  bool of_a_file = false;  // the call works on files
  std::string waits;       // kernel function that it waits in; empty: not waiting
};

/// Returns the state, which follows the name in brackets. The name may itself contain brackets.
char state_in(const std::string& stat) {
  const std::size_t end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? '?' : stat[end + 2];
}

const char* meaning(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
      return "sleeps";
    case 'D':
      return "waits for a disk or a device";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return "not known";
  }
}

std::string state_text(char state) {
  return std::string("state ") + state + " (" + meaning(state) + ")";
}

/// Sets the system call from /proc: "0 0x3 0x7f... " means a read of file 3; "running" and "-1 ..."
/// mean that the thread is in no system call.
void add_call(Thread& thread, const fs::path& process) {
  std::istringstream text(read_proc_file(thread.folder / "syscall"));
  long number = -1;
  std::string first;
  if (!(text >> number >> first) || number < 0) return;
  const auto* const known = std::ranges::find(kCalls, number, &Call::number);
  if (known == kCalls.end()) {
    thread.call = "system call " + std::to_string(number);
    return;
  }
  thread.call = known->name;
  thread.of_a_file = known->number == SYS_openat;
  if (!known->of_file) return;
  const unsigned long long file = std::strtoull(first.c_str(), nullptr, 16);
  std::error_code error;
  const fs::path target = fs::read_symlink(process / "fd" / std::to_string(file), error);
  if (error) return;
  thread.call += " of " + one_line(target.string(), kLongestName);
  thread.of_a_file = target.is_absolute() && !target.string().starts_with("/dev/");
}

Thread look_at(const fs::path& folder, const fs::path& process) {
  Thread thread{.folder = folder, .id = folder.filename().string()};
  thread.state = state_in(read_proc_file(folder / "stat"));
  add_call(thread, process);
  thread.waits = one_line(read_proc_file(folder / "wchan"), kLongestName);
  if (thread.waits == "0") thread.waits.clear();
  return thread;
}

/// "in read of /data/train.rec (pipe_read)"
std::string doing(const Thread& thread) {
  const std::string waits = thread.waits.empty() ? "" : " (" + thread.waits + ")";
  if (!thread.call.empty()) return "in " + thread.call + waits;
  if (!thread.waits.empty()) return "in " + thread.waits;
  return thread.state == 'R' ? "computes" : state_text(thread.state);
}

/// Returns the innermost kernel functions of a thread in state D. Only root can read them.
std::string kernel_stack(const Thread& thread) {
  if (thread.state != 'D') return {};
  std::istringstream lines(read_proc_file(thread.folder / "stack"));
  std::string text, line;
  for (std::size_t frame = 0; frame < kMostFrames && std::getline(lines, line); ++frame) {
    const std::size_t name = line.find("] ");
    if (name == std::string::npos) continue;
    const std::string function = line.substr(name + 2, line.find('+') - name - 2);
    text += (text.empty() ? "" : " < ") + one_line(function, kLongestName);
  }
  return text.empty() ? "" : ", in the kernel in " + text;
}

std::string other_text(const Thread& thread) {
  std::string name = read_proc_file(thread.folder / "comm");
  name.resize(std::min(name.find('\n'), name.size()));
  std::string text = "thread " + thread.id + " (" + one_line(name, 32) + ") " + doing(thread);
  if (thread.state != 'S' && thread.state != 'R') text += ", " + state_text(thread.state);
  text += kernel_stack(thread);
  return text;
}

/// Returns whether this thread may block the process in a way that the main thread, `first`, does
/// not show.
bool may_hold_up(const Thread& thread, const Thread& first) {
  const bool stopped = thread.state == 'T' || thread.state == 't';
  return thread.state == 'D' || thread.of_a_file || (stopped && first.state != thread.state);
}

std::vector<fs::path> other_threads(pid_t pid, const fs::path& process) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator each(process / "task", error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().filename() != std::to_string(pid)) folders.push_back(each->path());
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

std::string describe_process(pid_t pid, const fs::path& proc) {
  const fs::path process = proc / std::to_string(pid);
  const std::string stat = read_proc_file(process / "stat");
  if (stat.empty()) return {};
  const Thread first = look_at(process, process);
  std::string text =
      state_text(first.state) + "; main thread " + doing(first) + kernel_stack(first);
  std::size_t told = 0;
  for (const fs::path& folder : other_threads(pid, process)) {
    const Thread other = look_at(folder, process);
    if (!may_hold_up(other, first) || told == kMostThreads) continue;
    text += "; " + other_text(other);
    ++told;
  }
  return text;
}

bool handles_signal(pid_t pid, int signal, const fs::path& proc) {
  const fs::path process = proc / std::to_string(pid);
  const char state = state_in(read_proc_file(process / "stat"));
  if (state == 'T' || state == 't' || state == 'Z' || state == '?') return false;
  std::istringstream status(read_proc_file(process / "status"));
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kCaught = "SigCgt:";
    if (!line.starts_with(kCaught)) continue;
    const auto caught = std::strtoull(line.c_str() + kCaught.size(), nullptr, 16);
    return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

void WorkerDescriber::describe(pid_t pid, const Answer& answer) {
  const std::string text = describe_process(pid);
  if (!handles_signal(pid, SIGUSR1)) return answer(text);
  ::syscall(SYS_tgkill, pid, pid, SIGUSR1);  // to its main thread
  const auto timer = stacks_.emplace(stacks_.end(), loop_, kStackTime);
  timer->async_wait([this, answer, text, timer](const boost::system::error_code& error) {
    if (error) return;  // this object is destroyed
    stacks_.erase(timer);
    answer(text);
  });
}

}  // namespace pfc
