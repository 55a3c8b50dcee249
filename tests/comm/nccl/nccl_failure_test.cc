// Tests that workers on GPUs get an error in time that names the failed worker. Uses the emulated
// NCCL, whose collectives hang like the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_message.h"
#include "tests/support/simt/nccl_faults.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

class NcclFailure : public ::testing::Test {
 protected:
  NcclFailure() : start_(Clock::now()) {}
  ~NcclFailure() override {
    simt::clear_nccl_faults();
    EXPECT_LT(Clock::now() - start_, 2min);  // every wait has a limit
  }

  static std::unique_ptr<Ops> gpu(int rank) { return transports().back().make_ops(rank); }
  static CommOptions options(int rank, int world_size, std::chrono::milliseconds timeout = 10min) {
    CommOptions o = options_of(rank, world_size);
    o.timeout = timeout;
    return o;
  }

  /// Runs `work` on every rank and returns the CommErrors by rank.
  std::vector<std::string> errors_of(int world_size, std::chrono::milliseconds timeout,
                                     const std::function<void(RankOnDevice)>& work) {
    std::vector<std::string> errors(static_cast<std::size_t>(world_size));
    std::barrier all_connected(world_size), all_done(world_size);
    on_threads(world_size, [&](int rank) {
      const auto ops = gpu(rank);
      const DeviceComms comms =
          make_device_comms(*ops, options(rank, world_size, timeout), &store_);
      all_connected.arrive_and_wait();  // so that the timeouts of all ranks start together
      try {
        work({*ops, *comms.step, *comms.gradients});
      } catch (const CommError& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
      all_done.arrive_and_wait();  // a rank that leaves early would cause another kind of failure
    });
    return errors;
  }

  MemoryStore store_;
  const TimePoint start_;
};

void sum_and_wait(RankOnDevice r, std::size_t floats) {
  const Floats values(r.ops, std::vector<float>(floats));
  r.comm.all_reduce_sum(values);
  r.ops.synchronize();
  r.comm.throw_if_failed();
}

TEST_F(NcclFailure, NamesARankThatNeverConnects) {
  const auto ops = gpu(0);
  CommOptions o = options(0, 3);
  o.connect_timeout = 200ms;
  EXPECT_THAT(message_of<CommError>([&] { make_device_comms(*ops, o, &store_); }),
              HasSubstr("comm 'step', rank 0 of 3: nothing received in 0.2 s from rank 1, 2"));
}

TEST_F(NcclFailure, NamesARankThatRegistersButDoesNotConnect) {
  const auto ops = gpu(0);
  CommOptions o = options(0, 2);
  o.connect_timeout = 200ms;
  const std::string here = "10.0.0.2, GPU 3";
  store_.set("step/here/1", {here.begin(), here.end()});
  EXPECT_THAT(message_of<CommError>([&] { make_device_comms(*ops, o, &store_); }),
              AllOf(HasSubstr("comm 'step': rank 0 (127.0.0.1, GPU 0) cannot connect through NCCL "
                              "over interface lo to rank 1 (10.0.0.2, GPU 3), which has not begun "
                              "to connect, within 0.2 s"),
                    HasSubstr("NCCL_SOCKET_IFNAME")));
}

TEST_F(NcclFailure, NamesTheRankInNcclsMessageWithTheInterface) {
  simt::nccl_connects_nobody("connect to 10.0.0.2<43211> failed: No route to host");
  const auto ops = gpu(0);
  CommOptions o = options(0, 3);
  o.connect_timeout = 200ms;
  const auto come = [&](int rank, const std::string& place) {
    store_.set("step/here/" + std::to_string(rank), {place.begin(), place.end()});
    store_.set("step/nccl/begun/" + std::to_string(rank), {});
  };
  come(1, "10.0.0.1, GPU 0");
  come(2, "10.0.0.2, GPU 0");
  EXPECT_THAT(
      message_of<CommError>([&] { make_device_comms(*ops, o, &store_); }),
      HasSubstr("rank 0 (127.0.0.1, GPU 0) cannot connect through NCCL over interface lo to "
                "rank 2 (10.0.0.2, GPU 0), within 0.2 s: NCCL operation in progress: connect to "
                "10.0.0.2<43211> failed: No route to host"));
}

TEST_F(NcclFailure, AbortEndsTheHostThreadsWaitForTheGpu) {
  const auto errors = errors_of(2, 10min, [&](RankOnDevice r) {
    if (r.comm.rank() == 1) return;
    std::thread aborts([&] { r.gradients.abort("a newer generation has begun"); });
    const std::string error = message_of<CommError>([&] { sum_and_wait(r, 100); });
    aborts.join();
    throw CommError(error);
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("a newer generation has begun"), Not(HasSubstr("rank 1"))));
}

TEST_F(NcclFailure, AllOthersNameARankThatDoesNotTakePart) {
  const auto errors = errors_of(3, 3s, [&](RankOnDevice r) {
    sum_and_wait(r, 8);
    if (r.comm.rank() != 1) sum_and_wait(r, 10);
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(
        errors[static_cast<std::size_t>(rank)],
        AllOf(HasSubstr("comm 'step', rank " + std::to_string(rank) +
                        " of 3 (127.0.0.1, "
                        "GPU " +
                        std::to_string(rank) + "): all_reduce of 40 bytes (number 2) failed after"),
              HasSubstr("rank 1 (127.0.0.1, GPU 1)"), Not(HasSubstr("rank 0 (")),
              Not(HasSubstr("rank 2 ("))));
  }
}

TEST_F(NcclFailure, NamesTheMissingRankIfPeersDoNotSeeAborts) {
  simt::nccl_peers_hear_of_aborts(false);
  const auto errors = errors_of(3, 3s, [&](RankOnDevice r) {
    if (r.comm.rank() != 2) sum_and_wait(r, 10);
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        errors[static_cast<std::size_t>(rank)],
        HasSubstr("timeout: no report from rank 2 (127.0.0.1, GPU 2): stuck elsewhere, or dead"));
  }
}

TEST_F(NcclFailure, DoesNotNameALateRankThatIsStillWaiting) {
  simt::nccl_peers_hear_of_aborts(false);
  const auto errors = errors_of(3, 3s, [&](RankOnDevice r) {
    if (r.comm.rank() == 1) return;
    // Rank 2 starts late. So it has not timed out yet while the other rank asks for reports and
    // waits for them.
    if (r.comm.rank() == 2) {
      EXPECT_THROW(store_.get("nothing", 1200ms), CommError);
    }
    sum_and_wait(r, 10);
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 ("), Not(HasSubstr("rank 2 ("))));
}

TEST_F(NcclFailure, NamesARankThatIsMissingInAnAllToAll) {
  const auto errors = errors_of(3, 3s, [](RankOnDevice r) {
    if (r.comm.rank() == 2) return;
    const Floats in(r.ops, std::vector<float>(6)), out(r.ops, std::vector<float>(6));
    r.comm.all_to_all(in, out);
    r.ops.synchronize();
    r.comm.throw_if_failed();
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("all_to_all of 24 bytes (number 1) failed after"),
                               HasSubstr("rank 2 (127.0.0.1, GPU 2)"), Not(HasSubstr("rank 1 ("))));
}

TEST_F(NcclFailure, NamesRanksThatBeginDifferentCollectives) {
  const auto errors =
      errors_of(2, 3s, [&](RankOnDevice r) { sum_and_wait(r, r.comm.rank() == 0 ? 10 : 11); });
  EXPECT_THAT(
      errors[0],
      HasSubstr("rank 1 (127.0.0.1, GPU 1) has begun all_reduce of 44 bytes (number 1) instead"));
  EXPECT_THAT(
      errors[1],
      HasSubstr("rank 0 (127.0.0.1, GPU 0) has begun all_reduce of 40 bytes (number 1) instead"));
}

TEST_F(NcclFailure, LostNetworkFailsAllRanksImmediatelyWithNcclsMessage) {
  std::barrier connected(2);
  const auto errors = errors_of(2, 10min, [&](RankOnDevice r) {
    sum_and_wait(r, 10);
    connected.arrive_and_wait();
    if (r.comm.rank() == 1) simt::nccl_loses_network(1, "eth0 is down");
    for (;;) sum_and_wait(r, 10);
  });
  EXPECT_THAT(errors[1], HasSubstr("unhandled system error: eth0 is down"));
  EXPECT_THAT(errors[0], HasSubstr("remote process exited or there was a network error"));
}

TEST_F(NcclFailure, FailedCommStaysFailedAndFailsTheWorkersOtherComm) {
  const auto errors = errors_of(2, 300ms, [&](RankOnDevice r) {
    if (r.comm.rank() == 1) return;
    const Floats values(r.ops, std::vector<float>(10));
    const std::string first = message_of<CommError>([&] { sum_and_wait(r, 10); });
    EXPECT_THAT(first, HasSubstr("comm 'step'"));
    for (Comm* comm : {&r.comm, &r.gradients}) {
      EXPECT_EQ(message_of<CommError>([&] { comm->all_reduce_sum(values); }), first);
      EXPECT_EQ(message_of<CommError>([&] { comm->throw_if_failed(); }), first);
      EXPECT_EQ(message_of<CommError>([&] { comm->barrier(); }), first);
    }
  });
  EXPECT_EQ(errors[0], "");
}

// On a GPU an abort frees memory, and so waits for all other work there.
TEST_F(NcclFailure, AbortsStuckCommsTogether) {
  errors_of(2, 300ms, [&](RankOnDevice r) {
    if (r.comm.rank() == 1) return;
    const Floats values(r.ops, std::vector<float>(10));
    r.comm.all_reduce_sum(values);
    // On two threads, so that both streams run at the same time, as on a GPU.
    on_threads(2, [&](int which) {
      if (which == 0) {
        r.ops.synchronize();
      } else {
        EXPECT_THROW(r.gradients.barrier(), CommError);
      }
    });
  });
  EXPECT_EQ(simt::nccl_aborts_behind_others(), 0);
}

// NCCL's abort is known to hang sometimes. Nevertheless the worker must exit.
TEST_F(NcclFailure, DoesNotWaitForAHangingAbort) {
  simt::nccl_abort_hangs();
  const auto errors = errors_of(2, 300ms, [&](RankOnDevice r) {
    if (r.comm.rank() == 0) sum_and_wait(r, 10);
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 (127.0.0.1, GPU 1)"),
                               HasSubstr("NCCL's abort has not returned")));
}

TEST_F(NcclFailure, BarrierNamesTheMissingRanks) {
  const auto errors = errors_of(2, 300ms, [&](RankOnDevice r) {
    if (r.comm.rank() == 0) r.comm.barrier();
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("barrier (number 1) failed after "),
                               HasSubstr("rank 1 (127.0.0.1, GPU 1)")));
}

TEST_F(NcclFailure, WorkerThatFailsForAnotherReasonLeavesImmediately) {
  const TimePoint start = Clock::now();
  std::vector<std::string> errors(2);
  std::barrier connected(2);
  on_threads(2, [&](int rank) {
    const auto ops = gpu(rank);
    const Floats values(*ops, std::vector<float>(10));
    const DeviceComms comms = make_device_comms(*ops, options(rank, 2), &store_);
    // Without this, rank 1 could not connect, because this worker would have left.
    connected.arrive_and_wait();
    if (rank == 0) {
      comms.step->all_reduce_sum(values);
      return;  // simulates an error because of a bad record
    }
    errors[1] = message_of<CommError>([&] { comms.step->barrier(); });
  });
  EXPECT_THAT(errors[1], HasSubstr("remote process exited"));
  EXPECT_LT(Clock::now() - start, 2min);  // the timeout is 10 min
}

}  // namespace
}  // namespace pfc
