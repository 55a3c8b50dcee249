// Tests sending bytes between any two workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "common/error.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

std::size_t size_of_message(int from, int to) {
  return from == 1 && to == 2 ? 0 : static_cast<std::size_t>(1 + from * 70'001 + to * 13);
}
Bytes message(int from, int to) {
  Bytes bytes(size_of_message(from, to));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(from * 3 + to));
  }
  return bytes;
}

TEST(Exchange, SendsBetweenAllPairsInBothDirections) {
  constexpr int kWorkers = 4;
  MemoryStore store;
  on_threads(kWorkers, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, kWorkers), &store);
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<Bytes> out(kWorkers), in(kWorkers);
      std::vector<Comm::Sent> sent;
      std::vector<Comm::Received> received;
      for (int other = 0; other < kWorkers; ++other) {
        if (other == rank) continue;
        const auto i = static_cast<std::size_t>(other);
        out[i] = message(rank, other);
        in[i].resize(size_of_message(other, rank));
        sent.push_back({other, out[i]});
        received.push_back({other, in[i]});
      }
      comm->exchange(sent, received);
      for (const Comm::Received& r : received) {
        EXPECT_EQ(in[static_cast<std::size_t>(r.rank)], message(r.rank, rank));
      }
    }
  });
}

TEST(Exchange, CountsSentBytesAndAllowsIdleWorkers) {
  MemoryStore store;
  on_threads(3, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, 3), &store);
    Bytes bytes(1000, std::byte{5});
    const Comm::Sent sent{2, bytes};
    const Comm::Received received{0, bytes};
    if (rank == 0) comm->exchange(std::span(&sent, 1), {});
    if (rank == 1) comm->exchange({}, {});
    if (rank == 2) comm->exchange({}, std::span(&received, 1));
    EXPECT_EQ(comm->counters().sent_bytes, rank == 0 ? 1000u : 0u);
    comm->barrier();  // the Comm still works
  });
}

TEST(Exchange, DoesNothingWithOneWorker) {
  const auto comm = make_host_comm({}, nullptr);
  comm->exchange({}, {});
  EXPECT_EQ(comm->counters().calls, 1u);
}

TEST(Exchange, EndsWhenItIsAborted) {
  MemoryStore store;
  std::atomic<bool> ended = false;
  on_threads(2, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, 2), &store);
    comm->barrier();  // no rank leaves while another rank is still connecting
    if (rank == 1) {  // never sends
      while (!ended) std::this_thread::yield();
      return;
    }
    std::thread other([&] { comm->abort("a newer generation"); });
    Bytes bytes(1000);
    const Comm::Received received{1, bytes};
    EXPECT_THAT(
        testing::message_of<CommError>([&] { comm->exchange({}, std::span(&received, 1)); }),
        HasSubstr("a newer generation"));
    other.join();
    ended = true;
  });
}

TEST(Exchange, FailsQuicklyWhenThePeerIsGone) {
  MemoryStore store;
  on_threads(2, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, 2), &store);
    comm->barrier();  // no rank leaves while another rank is still connecting
    if (rank == 1) return;
    Bytes bytes(1000);
    const Comm::Sent sent{1, bytes};
    EXPECT_THROW(comm->exchange(std::span(&sent, 1), {}), CommError);
  });
}

}  // namespace
}  // namespace pfc
