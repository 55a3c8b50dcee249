// What the survivors see when a worker is gone: an error that names it, soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "common/atomic_file.h"
#include "common/clock.h"
#include "common/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/ranks.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const auto& act) {
  try {
    act();
  } catch (const CommError& e) {
    return e.what();
  }
  return "no CommError";
}

void all_reduce(Comm& comm, std::size_t floats) {
  std::vector<float> values(floats, 1.f);
  comm.all_reduce_sum({values.data(), Shape{static_cast<std::int64_t>(floats)}});
}

TEST(CommFailure, ARankThatNeverComesIsNamed) {
  MemoryStore store;
  std::vector<std::string> errors(4);
  on_threads(2, [&](int which) {
    const int rank = which * 2;  // 0 and 2 of 4
    CommOptions options = options_of(rank, 4, "train");
    options.connect_timeout = 200ms;
    errors[static_cast<std::size_t>(rank)] = error_of([&] { make_host_comm(options, &store); });
  });
  EXPECT_THAT(errors[0], HasSubstr("comm 'train', rank 0 of 4: absent after 0.2 s: rank 1, 3"));
  EXPECT_THAT(errors[2], HasSubstr("comm 'train', rank 2 of 4: absent after 0.2 s: rank 1, 3"));
}

TEST(CommFailure, AnAddressThatIsNotOursIsNamed) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    CommOptions options = options_of(rank, 2);
    options.address = "192.0.2.1";  // RFC 5737: nobody's
    EXPECT_THAT(error_of([&] { make_host_comm(options, &store); }),
                HasSubstr("cannot connect from 192.0.2.1"));
  });
}

TEST(CommFailure, ALostCommFailsAllOthersAtOnceAndIsUselessAfterwards) {
  MemoryStore store;
  const TimePoint start = Clock::now();
  on_threads(3, [&](int rank) {
    auto comm = make_host_comm(options_of(rank, 3), &store);
    comm->barrier();
    if (rank == 1) return;
    for (const std::size_t floats : {100u, 1'000'000u}) {
      EXPECT_THAT(error_of([&] { all_reduce(*comm, floats); }),
                  AllOf(HasSubstr("rank " + std::to_string(rank) + " of 3: all_reduce of"),
                        testing::AnyOf(HasSubstr("failed after"), HasSubstr("earlier failure"))));
    }
  });
  EXPECT_LT(Clock::now() - start, 20s);  // the timeout is 60 s
}

TEST(CommFailure, ARankThatDoesNotTakePartTimesOutByName) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    CommOptions options = options_of(rank, 2);
    options.timeout = 300ms;
    auto comm = make_host_comm(options, &store);
    comm->barrier();
    if (rank == 0) {
      EXPECT_THAT(
          error_of([&] { all_reduce(*comm, 10); }),
          AllOf(HasSubstr("rank 1 (127.0.0.1) failed after 0.3 s"), HasSubstr("Timed out")));
      store.set("over", {});
    } else {
      store.get("over", 30s);
    }
  });
}

/// A store for processes: a file a key.
class FolderStore : public KeyValueStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::vector<char>& value) override {
    write_file_atomically(file(key), {value.data(), value.size()});
  }
  std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) override {
    const TimePoint deadline = Clock::now() + timeout;
    while (!std::filesystem::exists(file(key))) {
      if (Clock::now() > deadline) throw CommError("no value of '" + key + "'");
      std::this_thread::sleep_for(1ms);
    }
    std::ifstream in(file(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  [[nodiscard]] std::filesystem::path file(std::string key) const {
    std::ranges::replace(key, '/', '_');
    return folder_ / key;
  }
  const std::filesystem::path folder_;
};

/// All-reduces until that fails; returns the error.
std::string all_reduce_until_failure(int rank, KeyValueStore& store, std::atomic<int>& rounds) {
  const auto comm = make_host_comm(options_of(rank, 3), &store);
  return error_of([&] {
    for (;; ++rounds) all_reduce(*comm, 3'000'000);
  });
}

/// A process of its own that takes part as `rank`; ends with 0 when it got a CommError.
pid_t fork_rank(int rank, const std::filesystem::path& folder) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  FolderStore store(folder);
  std::atomic<int> rounds = 0;
  const bool told = all_reduce_until_failure(rank, store, rounds) != "no CommError";
  ::_exit(told ? 0 : 1);
}

TEST(CommFailure, AKilledProcessFailsAllOthersAtOnceInTheMiddleOfACollective) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    TemporaryFolder folder;
    const pid_t survivor = fork_rank(1, folder.path());
    const pid_t victim = fork_rank(2, folder.path());
    FolderStore store(folder.path());
    std::atomic<int> rounds = 0;
    std::thread killer([&] {
      while (rounds < 2) std::this_thread::yield();
      ::kill(victim, SIGKILL);
    });
    std::string error;
    std::thread us([&] { error = all_reduce_until_failure(0, store, rounds); });
    killer.join();
    const TimePoint killed = Clock::now();
    us.join();
    int status = -1;
    ::waitpid(victim, nullptr, 0);
    ::waitpid(survivor, &status, 0);
    EXPECT_LT(Clock::now() - killed, 20s);  // the timeout is 60 s
    EXPECT_THAT(error, HasSubstr("all_reduce of 12000000 bytes with rank"));
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace pfc
