// Ranks as processes of this host.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace pfc::testing {

/// Forks one process per rank, runs `work` in each and waits for all. A failure in one, by
/// exception, expectation or signal, fails the test here. REQUIRES: the caller has one thread and
/// has not called CUDA, which does not survive a fork.
inline void on_processes(int world_size, const std::function<void(int rank)>& work) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0) << "fork";
    if (child == 0) {
      bool failed = false;
      try {
        work(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        failed = true;
      }
      std::fflush(nullptr);
      _exit(failed || ::testing::Test::HasFailure() ? 1 : 0);  // skips the parent's handlers
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
              children[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << " failed with status " << status;
  }
}

/// A counter shared by all threads of this process and of processes that are forked from now on.
class SharedCount {
 public:
  SharedCount()
      : memory_(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        value_(new (memory_) std::atomic<int>(0)) {}
  SharedCount(const SharedCount&) = delete;
  ~SharedCount() { munmap(memory_, sizeof(std::atomic<int>)); }
  std::atomic<int>& operator*() { return *value_; }

 private:
  void* const memory_;
  std::atomic<int>* const value_;
};

}  // namespace pfc::testing
