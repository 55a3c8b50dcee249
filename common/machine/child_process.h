// Starting a program, and knowing for certain that it has ended.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pfc {

/// How a process ended.
struct ProcessExit {
  int code = 0;
  int signal = 0;  ///< 0: it exited by itself, with `code`

  [[nodiscard]] bool success() const { return signal == 0 && code == 0; }
  friend bool operator==(const ProcessExit&, const ProcessExit&) = default;
};

/// The exit code of a program that cannot be started. A shell returns the same code when it does
/// not find a command.
inline constexpr int kCannotStartCode = 127;

/// "killed by signal 9 (SIGKILL)", "exited with code 3".
std::string describe(const ProcessExit& exit);

/// What the coordinator's own agent gets when the coordinator dies. The kernel sends it again for
/// each thread of the dying parent that the child is passed on to: so it is none of the signals of
/// which a second one means haste.
inline constexpr int kParentDeathSignal = SIGUSR1;

/// The environment variable by which a coordinator gives the agent that it starts itself an id, so
/// that no other agent can take its place.
inline constexpr const char* kAgentIdVariable = "PFC_AGENT_ID";
/// Likewise, in milliseconds: how long its workers train on without a coordinator, until that says
/// so.
inline constexpr const char* kAgentGraceVariable = "PFC_AGENT_GRACE_MS";

struct SpawnOptions {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to this process's
  bool capture_output = false;  ///< stdout and stderr become pipes; otherwise they are inherited
  std::string input = {};       ///< what its stdin has; no other user can read it. Empty: /dev/null
  /// Linux' numbers of the hardware threads that it may use; empty: as this process. Where the
  /// kernel does not allow it, it may use those of this process.
  std::vector<int> cpus;
  int parent_death_signal = SIGKILL;  ///< sent when the thread that called spawn ends; 0: none
};

/// A child in a process group of its own, so that a terminal's Ctrl-C does not reach it. The
/// destructor kills the group and waits at most 5 s for the child to end. One thread at a time.
class ChildProcess {
 public:
  /// Throws an error that names the program when it cannot be started: InputError, or
  /// std::runtime_error where the machine or the user has no process left. Waits at most 10 s.
  explicit ChildProcess(const SpawnOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The read ends of its output, given away; -1 when not captured.
  int take_stdout() { return std::exchange(stdout_, -1); }
  int take_stderr() { return std::exchange(stderr_, -1); }

  /// How it ended, once it has; whatever it left in its group is killed then. Never blocks.
  std::optional<ProcessExit> poll();
  /// Signals its whole group; nothing once poll() has told the end.
  void send(int signal);

 private:
  pid_t pid_ = -1;
  int stdout_ = -1;
  int stderr_ = -1;
  std::optional<ProcessExit> exit_;
};

/// The folder that this program's file is in: its sister programs lie there.
std::filesystem::path program_folder();

}  // namespace pfc
