// Starts programs, and reports reliably when they have ended.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/fd.h"

namespace pfc {

/// How a process ended.
struct ProcessExit {
  int code = 0;
  int signal = 0;  ///< 0 if it exited by itself, with `code`

  [[nodiscard]] bool success() const { return signal == 0 && code == 0; }
  friend bool operator==(const ProcessExit&, const ProcessExit&) = default;
};

/// Exit code of a program that cannot be started. Shells use the same code for an unknown command.
inline constexpr int kCannotStartCode = 127;

/// Returns text such as "killed by signal 9 (SIGKILL)" or "exited with code 3".
std::string describe(const ProcessExit& exit);

/// Signal that the coordinator's own agent receives when the coordinator dies. The kernel can send
/// it once for each thread of the coordinator. Therefore it must not be a signal whose repetition
/// forces an immediate stop.
inline constexpr int kParentDeathSignal = SIGUSR1;

/// Environment variable with the id that a coordinator assigns to the agent that it starts itself,
/// so that no other agent can take its place.
inline constexpr const char* kAgentIdVariable = "PFC_AGENT_ID";
/// Environment variable for that agent: the time, in milliseconds, for which its workers keep
/// training without a coordinator. It applies until the coordinator sends another value.
inline constexpr const char* kAgentGraceVariable = "PFC_AGENT_GRACE_MS";

struct SpawnOptions {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to that of this process
  bool capture_output = false;  ///< false: stdout and stderr are inherited; true: pipes
  std::string input = {};       ///< content of stdin, unreadable for other users. Empty: /dev/null
  /// Linux numbers of the hardware threads that the program may use. If the list is empty, or the
  /// kernel rejects it, the program may use the same ones as this process.
  std::vector<int> cpus;
  int parent_death_signal = SIGKILL;  ///< sent when the thread that started it ends; 0: none
};

/// A child in its own process group, which a terminal's Ctrl-C does not reach. The destructor
/// kills the group and waits up to 5 s for the child to end. Used by one thread at a time.
class ChildProcess {
 public:
  /// Starts the program. If that fails, throws an error that names the program: InputError, or
  /// std::runtime_error if a process limit is reached. Waits up to 10 s.
  explicit ChildProcess(const SpawnOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Transfers ownership of the read end of the output; -1 if not captured.
  int take_stdout() { return stdout_.release(); }
  int take_stderr() { return stderr_.release(); }

  /// Returns how the child ended, or nullopt if it is running. When it has ended, kills the rest
  /// of its group. Never blocks.
  std::optional<ProcessExit> poll();
  /// Sends a signal to the whole group. Does nothing after poll() has returned the exit status.
  void send(int signal);

 private:
  pid_t pid_ = -1;
  Fd stdout_;
  Fd stderr_;
  std::optional<ProcessExit> exit_;
};

/// Returns the folder of this program's executable, which also holds pfc's other programs.
std::filesystem::path program_folder();

}  // namespace pfc
