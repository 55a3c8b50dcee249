#include "common/process/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SpawnOptions shell(const std::string& script) {
  return {.program = "/bin/sh", .arguments = {"-c", script}, .capture_output = true};
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(fd);
  return text;
}

ProcessExit end_of(ChildProcess& child) {
  std::optional<ProcessExit> exit;
  while (!(exit = child.poll())) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return *exit;
}

TEST(ChildProcess, ReturnsExitCodesAndSignals) {
  ChildProcess code(shell("exit 7"));
  EXPECT_EQ(end_of(code), (ProcessExit{.code = 7}));
  EXPECT_EQ(describe(end_of(code)), "exited with code 7");
  ChildProcess signal(shell("kill -SEGV $$"));
  EXPECT_EQ(describe(end_of(signal)), "killed by signal 11 (SIGSEGV)");
}

TEST(ChildProcess, CapturesBothStreams) {
  ChildProcess child(shell("echo out; echo err >&2"));
  EXPECT_EQ(read_all(child.take_stdout()), "out\n");
  EXPECT_EQ(read_all(child.take_stderr()), "err\n");
  end_of(child);
}

TEST(ChildProcess, ReadsItsInputFromStdin) {
  SpawnOptions options = shell("cat; readlink /proc/self/fd/0");
  EXPECT_THAT(
      [&] {
        ChildProcess child(options);
        return read_all(child.take_stdout());
      }(),
      HasSubstr("/dev/null"));
  options.input = "a secret\n";
  ChildProcess child(options);
  EXPECT_THAT(read_all(child.take_stdout()), ::testing::StartsWith("a secret\n/memfd:"));
  end_of(child);
}

TEST(ChildProcess, AddsAndReplacesEnvironmentVariables) {
  SpawnOptions options = shell("echo $PFC_X $HOME");
  options.environment = {{"PFC_X", "new"}, {"HOME", "/nowhere"}};
  ChildProcess child(options);
  EXPECT_EQ(read_all(child.take_stdout()), "new /nowhere\n");
  end_of(child);
}

TEST(ChildProcess, InheritsOnlyStandardFiles) {
  const int leaked = dup(STDERR_FILENO);
  ChildProcess child(shell("ls /proc/self/fd | wc -l"));
  EXPECT_EQ(read_all(child.take_stdout()), "4\n") << "0 to 2, and the folder read by ls";
  close(leaked);
  end_of(child);
}

TEST(ChildProcess, RunsInItsOwnGroupWhichIsSignalledAsAWhole) {
  ChildProcess child(shell("sleep 1000 & echo $!; wait"));
  std::array<char, 32> line{};
  const int out = child.take_stdout();
  ASSERT_GT(read(out, line.data(), line.size() - 1), 0);
  EXPECT_EQ(getpgid(std::stoi(line.data())), child.pid());
  child.send(SIGKILL);
  EXPECT_EQ(end_of(child), (ProcessExit{.signal = SIGKILL}));
  EXPECT_EQ(read_all(out), "") << "the sleep process keeps the pipe open until it ends too";
}

TEST(ChildProcess, KillsTheRestOfItsGroup) {
  ChildProcess child(shell("sleep 1000 &"));
  end_of(child);
  EXPECT_EQ(read_all(child.take_stdout()), "");
}

TEST(ChildProcess, IsKilledWithItsObject) {
  int out = -1;
  {
    ChildProcess child(shell("sleep 1000"));
    out = child.take_stdout();
  }
  EXPECT_EQ(read_all(out), "");
}

TEST(ChildProcess, IsKilledWithTheThreadThatStartedIt) {
  std::unique_ptr<ChildProcess> child;
  std::thread([&] { child = std::make_unique<ChildProcess>(shell("sleep 1000")); }).join();
  EXPECT_EQ(end_of(*child), (ProcessExit{.signal = SIGKILL}));
}

TEST(ChildProcess, LeavesSighupUnchanged) {
  const std::string script = "kill -HUP $$; echo alive";
  std::signal(SIGHUP, SIG_IGN);
  ChildProcess ignores(shell(script));
  std::signal(SIGHUP, SIG_DFL);
  ChildProcess dies(shell(script));
  EXPECT_EQ(read_all(ignores.take_stdout()), "alive\n");
  EXPECT_EQ(read_all(dies.take_stdout()), "");
  EXPECT_EQ(end_of(dies), (ProcessExit{.signal = SIGHUP}));
}

/// Starts a process that traces `traced` forever, so that the parent of `traced` is not notified
/// when `traced` ends. Writes to the pipe whether tracing is allowed: 'y' or 'n'.
pid_t trace(pid_t traced, int answers) {
  const pid_t tracer = fork();
  if (tracer != 0) return tracer;
  const bool traces = ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0;
  const char answer = traces ? 'y' : 'n';
  if (write(answers, &answer, 1) != 1) _exit(1);
  while (true) pause();
}

TEST(ChildProcess, IsAbandonedWhenItDoesNotEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  pid_t tracer = 0;
  {
    ChildProcess child(shell("sleep 1000"));
    tracer = trace(child.pid(), ends[1]);
    char traces = 0;
    ASSERT_EQ(read(ends[0], &traces, 1), 1);
    if (traces != 'y') {
      kill(tracer, SIGKILL);
      waitpid(tracer, nullptr, 0);
      GTEST_SKIP() << "a process may not trace another one here";
    }
  }  // the destructor returns, although the tracer keeps the killed child from ending
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(ChildProcess, NamesAProgramThatCannotBeStarted) {
  EXPECT_THAT(
      testing::message_of<InputError>([] { ChildProcess({.program = "/nowhere/pfc-worker"}); }),
      AllOf(HasSubstr("/nowhere/pfc-worker"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace pfc
