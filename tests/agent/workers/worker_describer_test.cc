#include "agent/workers/worker_describer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "common/clock.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A child process that runs this function, and is killed at the end.
class Child {
 public:
  explicit Child(const std::function<void()>& does) : pid_(fork()) {
    if (pid_ == 0) {
      does();
      _exit(0);
    }
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Waits until the process's description contains `text`, and returns it, or the last one.
  [[nodiscard]] std::string described_with(const std::string& text) const {
    std::string description;
    for (const TimePoint end = Clock::now() + 60s; Clock::now() < end; usleep(1'000)) {
      description = describe_process(pid_);
      if (description.find(text) != std::string::npos) break;
    }
    return description;
  }

 private:
  const pid_t pid_;
};

TEST(ProcessDescription, SaysThatAProcessIsStopped) {
  const Child child([] {
    while (true) pause();
  });
  ::kill(child.pid(), SIGSTOP);
  EXPECT_THAT(child.described_with("state T"), HasSubstr("state T (stopped); main thread"));
  EXPECT_FALSE(handles_signal(child.pid(), SIGUSR1));
}

TEST(ProcessDescription, SaysThatAProcessSpins) {
  const Child child([] {
    volatile bool ever = true;
    while (ever) {
    }
  });
  EXPECT_THAT(child.described_with("computes"), HasSubstr("state R (runs); main thread computes"));
}

TEST(ProcessDescription, NamesTheFileThatAReadWaitsFor) {
  const TemporaryFolder folder;
  const std::filesystem::path fifo = folder / "train.rec";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Child child([&] {
    char byte = 0;
    const int file = ::open(fifo.c_str(), O_RDWR);
    static_cast<void>(!::read(file, &byte, 1));
  });
  EXPECT_THAT(child.described_with("in read"), HasSubstr("in read of " + fifo.string()));
}

TEST(ProcessDescription, IsEmptyWithoutAProcess) {
  EXPECT_EQ(describe_process(0), "");
  EXPECT_FALSE(handles_signal(0, SIGUSR1));
}

TEST(ProcessDescription, ReportsWhetherASignalHasAHandler) {
  std::signal(SIGUSR2, [](int) {});
  EXPECT_TRUE(handles_signal(getpid(), SIGUSR2));
  std::signal(SIGUSR2, SIG_IGN);
  EXPECT_FALSE(handles_signal(getpid(), SIGUSR2));
  std::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(handles_signal(getpid(), SIGUSR2));
}

/// A fake /proc folder.
class ProcFolder : public ::testing::Test {
 protected:
  void has(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void has_file_open(int number, const std::string& target) {
    std::filesystem::create_directories(folder / "7/fd");
    std::filesystem::create_symlink(target, folder / "7/fd" / std::to_string(number));
  }

  TemporaryFolder folder;
};

TEST_F(ProcFolder, DescribesOtherThreadsThatMayBlockTheProcess) {
  has("7/stat", "7 (pfc) w) S 1 1");
  has("7/syscall", std::to_string(SYS_futex) + " 0x1 0x2");
  has("7/wchan", "futex_do_wait");
  has("7/task/7/stat", "7 (pfc) w) S 1 1");
  has("7/task/8/stat", "8 (data) D 1 1");
  has("7/task/8/comm", "data\n");
  has("7/task/8/syscall", std::to_string(SYS_pread64) + " 0x5 0x2");
  has("7/task/8/wchan", "folio_wait_bit");
  has("7/task/8/stack", "[<0>] folio_wait_bit+0x1/0x2\n[<0>] filemap_read+0x1/0x2\n");
  has("7/task/9/stat", "9 (net) S 1 1");
  has("7/task/9/syscall", std::to_string(SYS_read) + " 0x6 0x2");
  has_file_open(5, "/data/train.rec");
  has_file_open(6, "socket:[1]");
  EXPECT_EQ(describe_process(7, folder.path()),
            "state S (sleeps); main thread in futex (futex_do_wait); thread 8 (data) in pread64 of "
            "/data/train.rec (folio_wait_bit), state D (waits for a disk or a device), in the "
            "kernel in folio_wait_bit < filemap_read");
}

TEST_F(ProcFolder, OmitsUnreadableFiles) {
  has("7/stat", "7 (w) S 1 1");
  EXPECT_EQ(describe_process(7, folder.path()), "state S (sleeps); main thread state S (sleeps)");
  has("7/syscall", "running\n");
  has("7/wchan", "0");
  has("7/stat", "7 (w) R 1 1");
  EXPECT_EQ(describe_process(7, folder.path()), "state R (runs); main thread computes");
  has("7/syscall", "9999 0x0");
  has("7/wchan", "\x1b[2Jevil\n");
  EXPECT_THAT(describe_process(7, folder.path()),
              AllOf(HasSubstr("in system call 9999 ("), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace pfc
