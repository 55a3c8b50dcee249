// Tests that survivors quickly get an error that names a worker that has gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "comm/failures/abort_switch.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/workers/store_keys.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace {

/// Seconds that the test adds to the kernel's time of day. A decrease has the effect of a clock
/// that is set back.
std::atomic<std::int64_t> seconds_ahead{0};

}  // namespace

/// Replaces the C library's function in this whole test program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead;
  return result;
}

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

void all_reduce(Comm& comm, std::size_t floats) {
  std::vector<float> values(floats, 1.f);
  comm.all_reduce_sum({values.data(), Shape{static_cast<std::int64_t>(floats)}});
}

TEST(CommFailure, NamesARankThatNeverConnects) {
  MemoryStore store;
  std::vector<std::string> errors(4);
  on_threads(2, [&](int which) {
    const int rank = which * 2;  // 0 and 2 of 4
    CommOptions options = options_of(rank, 4, "train");
    options.connect_timeout = 3s;
    errors[static_cast<std::size_t>(rank)] =
        message_of<CommError>([&] { make_host_comm(options, &store); });
  });
  EXPECT_THAT(errors[0],
              HasSubstr("comm 'train', rank 0 of 4: nothing received in 3.0 s from rank 1, 3"));
  EXPECT_THAT(errors[2],
              HasSubstr("comm 'train', rank 2 of 4: nothing received in 3.0 s from rank 1, 3"));
}

TEST(CommFailure, NamesAnAddressOfAnotherMachine) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    CommOptions options = options_of(rank, 2);
    options.address = "192.0.2.1";  // RFC 5737: belongs to no machine
    EXPECT_THAT(message_of<CommError>([&] { make_host_comm(options, &store); }),
                HasSubstr("cannot connect from 192.0.2.1"));
  });
}

/// The store of a rank that dies as soon as its peers have read its address.
class StoreOfOneThatDies : public KeyValueStore {
 public:
  explicit StoreOfOneThatDies(KeyValueStore& store) : store_(store) {}
  void set(const std::string& key, const std::vector<char>& value) override {
    store_.set(key, value);
  }
  std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) override {
    if (key.find("/gloo/") != std::string::npos) throw CommError("killed");
    return store_.get(key, timeout);
  }

 private:
  KeyValueStore& store_;
};

/// Lets rank 1 of two ranks die while they connect, then calls `then` on rank 1's thread. Returns
/// rank 0's error.
std::string dies_while_connecting(CommOptions options, const std::function<void()>& then) {
  MemoryStore store;
  std::string error;
  on_threads(2, [&](int rank) {
    if (rank == 0) {
      error = message_of<CommError>([&] { make_host_comm(options, &store); });
      return;
    }
    CommOptions mine = options_of(1, 2);
    // With Gloo, the rank with the lower address waits for the other rank to connect.
    mine.address = "127.0.0.2";
    StoreOfOneThatDies dying(store);
    EXPECT_THAT(message_of<CommError>([&] { make_host_comm(mine, &dying); }), HasSubstr("killed"));
    then();
  });
  return error;
}

TEST(CommFailure, AbortEndsTheWaitForAPeerThatDiesWhileConnecting) {
  AbortSwitch abort_switch;
  CommOptions options = options_of(0, 2);
  options.abort_switch = &abort_switch;
  const TimePoint start = Clock::now();
  EXPECT_EQ(dies_while_connecting(options, [&] { abort_switch.abort("rank 1 was killed"); }),
            "rank 1 was killed");
  EXPECT_LT(Clock::now() - start, 1min);  // the timeout is 2 min
}

TEST(CommFailure, TimeoutNamesAPeerThatDiesWhileConnecting) {
  CommOptions options = options_of(0, 2);
  options.connect_timeout = 3s;
  EXPECT_EQ(dies_while_connecting(options, [] {}),
            "comm 'test', rank 0 of 2: rank 1 (127.0.0.2) has not connected to 127.0.0.1 within "
            "3.0 s");
}

TEST(CommFailure, SettingTheClockBackDoesNotExtendWaits) {
  CommOptions options = options_of(0, 2);
  options.connect_timeout = 3s;
  seconds_ahead = 3'600;
  const std::string error = dies_while_connecting(options, [] {});
  seconds_ahead = 0;
  EXPECT_THAT(error, HasSubstr("rank 1 (127.0.0.2) has not connected to 127.0.0.1 within 3.0 s"));
}

TEST(CommFailure, LosingACommFailsAllOthersImmediatelyAndPermanently) {
  MemoryStore store;
  const TimePoint start = Clock::now();
  on_threads(3, [&](int rank) {
    auto comm = make_host_comm(options_of(rank, 3), &store);
    comm->barrier();
    if (rank == 1) return;
    for (const std::size_t floats : {100u, 1'000'000u}) {
      EXPECT_THAT(message_of<CommError>([&] { all_reduce(*comm, floats); }),
                  AllOf(HasSubstr("rank " + std::to_string(rank) + " of 3: all_reduce of"),
                        ::testing::AnyOf(HasSubstr("failed after"), HasSubstr("earlier failure"))));
    }
  });
  EXPECT_LT(Clock::now() - start, 2min);  // the timeout is 10 min
}

TEST(CommFailure, TimeoutNamesARankThatDoesNotTakePart) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    CommOptions options = options_of(rank, 2);
    options.timeout = 3s;
    auto comm = make_host_comm(options, &store);
    comm->barrier();
    if (rank == 0) {
      const TimePoint begin = Clock::now();
      const std::string message = message_of<CommError>([&] { all_reduce(*comm, 10); });
      const double took = seconds_since(begin);
      store.set("over", {});
      const std::string after = "rank 1 (127.0.0.1) failed after ";
      ASSERT_THAT(message,
                  AllOf(HasSubstr(after), HasSubstr("Timed out"),
                        HasSubstr("no report from rank 1 (127.0.0.1): stuck elsewhere, or dead")));
      const double reported = std::stod(message.substr(message.find(after) + after.size()));
      EXPECT_GE(reported, 3.0);
      EXPECT_LE(reported, took + 0.05);  // the reported time has one decimal
    } else {
      store.get("over", 30s);
    }
  });
}

TEST(CommFailure, TimeoutNamesALateRankAndItsStepAndPhase) {
  MemoryStore store;
  const std::string doing = "at step 3 in forward for 9 s";
  store.set(doing_key(1), {doing.begin(), doing.end()});
  on_threads(3, [&](int rank) {
    CommOptions options = options_of(rank, 3);
    options.timeout = 300ms;
    auto comm = make_host_comm(options, &store);
    if (rank == 1) {
      store.get("over", 60s);
      return;
    }
    const std::string error = message_of<CommError>([&] { all_reduce(*comm, 10); });
    if (rank == 2) return;  // rank 0 may already have published the result
    EXPECT_THAT(error, AllOf(HasSubstr("all_reduce of 40 bytes (number 1) with"),
                             HasSubstr("no report from rank 1 (127.0.0.1)"),
                             HasSubstr("; rank 1 is " + doing)));
    store.set("over", {});
  });
}

TEST(CommCounters, ReportTheNewestCollectiveAndWhetherItIsDone) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    auto comm = make_host_comm(options_of(rank, 2), &store);
    EXPECT_STREQ(comm->counters().newest, "");
    comm->barrier();
    EXPECT_STREQ(comm->counters().newest, "barrier");
    EXPECT_EQ(comm->counters().calls, 1U);
    EXPECT_EQ(comm->counters().done, 1U);
    if (rank == 1) {
      store.get("seen", 60s);
      return all_reduce(*comm, 10);
    }
    std::thread waits([&] { all_reduce(*comm, 10); });
    while (comm->counters().calls < 2) std::this_thread::yield();
    EXPECT_STREQ(comm->counters().newest, "all_reduce");
    EXPECT_EQ(comm->counters().done, 1U);
    store.set("seen", {});
    waits.join();
    EXPECT_EQ(comm->counters().done, 2U);
    EXPECT_GT(comm->counters().call_seconds, 0);
  });
}

using Waiting = void (*)(Comm&);

TEST(CommFailure, AbortFreesTheWaitingThreadAndFailsLaterCalls) {
  const std::vector<Waiting> collectives{
      [](Comm& comm) { comm.barrier(); }, [](Comm& comm) { all_reduce(comm, 10); },
      [](Comm& comm) { all_reduce(comm, 6'000'000); },  // more data than the sockets hold
      [](Comm& comm) {
        std::vector<std::byte> bytes(24'000'000);
        comm.broadcast({bytes.data(), DType::kUInt8, {24'000'000}}, 0);
      },
      [](Comm& comm) {
        std::vector<std::byte> in(24'000'000), out(24'000'000);
        comm.all_to_all({in.data(), DType::kUInt8, {24'000'000}},
                        {out.data(), DType::kUInt8, {24'000'000}});
      }};
  for (const Waiting& collective : collectives) {
    MemoryStore store;
    on_threads(2, [&](int rank) {
      const auto comm = make_host_comm(options_of(rank, 2), &store);
      comm->barrier();
      if (rank == 1) {
        store.get("over", 30s);
        return;
      }
      std::thread waits([&] {
        EXPECT_THAT(message_of<CommError>([&] { collective(*comm); }),
                    HasSubstr("a newer generation has begun"));
      });
      while (comm->counters().calls < 2) std::this_thread::yield();  // the collective has begun
      // Usually the collective is waiting by then, but it must work in both cases.
      std::this_thread::sleep_for(5ms);
      comm->abort("a newer generation has begun");
      waits.join();
      EXPECT_THAT(message_of<CommError>([&] { comm->barrier(); }), HasSubstr("earlier failure"));
      store.set("over", {});
    });
  }
}

TEST(CommFailure, AbortedCommOfOneWorkerThrows) {
  const auto comm = make_host_comm(options_of(0, 1), nullptr);
  comm->abort("a newer generation has begun");
  EXPECT_EQ(message_of<CommError>([&] { comm->barrier(); }), "a newer generation has begun");
}

constexpr std::int64_t kFloats = 6'000'000;  // more data than the socket buffers hold

using Collective = void (*)(Comm&, std::vector<float>& in, std::vector<float>& out);

void all_gather(Comm& comm, std::vector<float>& in, std::vector<float>& out) {
  comm.all_gather({in.data(), Shape{kFloats}}, {out.data(), Shape{kFloats * comm.size()}});
}

void all_reduce(Comm& comm, std::vector<float>& in, std::vector<float>&) {
  comm.all_reduce_sum({in.data(), Shape{kFloats}});
}

void all_to_all(Comm& comm, std::vector<float>& in, std::vector<float>& out) {
  comm.all_to_all({in.data(), Shape{kFloats}}, {out.data(), Shape{kFloats}});
}

/// Repeats the collective until it fails; returns the error.
std::string repeat_until_failure(int rank, int world_size, KeyValueStore& store,
                                 Collective collective, std::atomic<int>& rounds) {
  const auto comm = make_host_comm(options_of(rank, world_size), &store);
  std::vector<float> in(kFloats);
  std::vector<float> out(kFloats * static_cast<std::size_t>(world_size));
  return message_of<CommError>([&] {
    for (;; ++rounds) collective(*comm, in, out);
  });
}

/// Forks a process that takes part as `rank`, and exits with 0 when it gets a CommError.
pid_t fork_rank(int rank, int world_size, const std::filesystem::path& folder,
                Collective collective) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  testing::FolderStore store(folder);
  std::atomic<int> rounds = 0;
  const std::string error = repeat_until_failure(rank, world_size, store, collective, rounds);
  ::_exit(error.empty() ? 1 : 0);
}

/// Runs rank 0 in this process. Kills the last rank during the third collective or a later one.
void kill_one_of(int world_size, Collective collective, const std::string& name) {
  TemporaryFolder folder;
  std::vector<pid_t> others;
  for (int rank = 1; rank < world_size; ++rank) {
    others.push_back(fork_rank(rank, world_size, folder.path(), collective));
  }
  testing::FolderStore store(folder.path());
  std::atomic<int> rounds = 0;
  std::string error;
  std::thread us([&] { error = repeat_until_failure(0, world_size, store, collective, rounds); });
  while (rounds < 2) std::this_thread::yield();
  ::kill(others.back(), SIGKILL);
  const TimePoint killed = Clock::now();
  us.join();
  for (const pid_t pid : others) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, pid == others.back() ? SIGKILL : 0);
  }
  EXPECT_LT(Clock::now() - killed, 2min);  // the timeout is 10 min
  EXPECT_THAT(error,
              AllOf(HasSubstr(name + " of 24000000 bytes (number "), HasSubstr(") with rank")));
}

TEST(CommFailure, KilledProcessFailsAllOthersImmediatelyDuringACollective) {
  for (const int world_size : {2, 2, 3}) {
    kill_one_of(world_size, &all_gather, "all_gather");
    kill_one_of(world_size, &all_reduce, "all_reduce");
    kill_one_of(world_size, &all_to_all, "all_to_all");
  }
}

}  // namespace
}  // namespace pfc
