#include "comm/rank_zero.h"

#include <gtest/gtest.h>

#include <array>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

TEST(OnRankZero, RunsOnlyOnRankZero) {
  std::array<int, 3> ran{};
  testing::run_ranks(3, [&](Comm& comm) {
    on_rank_zero(comm, [&] { ++ran[static_cast<std::size_t>(comm.rank())]; });
  });
  EXPECT_EQ(ran, (std::array<int, 3>{1, 0, 0}));
}

TEST(OnRankZero, FailsOnAllWorkersWithTheSameMessage) {
  std::array<std::string, 3> errors;
  testing::run_ranks(3, [&](Comm& comm) {
    errors[static_cast<std::size_t>(comm.rank())] = testing::message_of<InputError>(
        [&] { on_rank_zero(comm, [] { throw StorageError("out: no space"); }); });
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "out: no space");
}

TEST(OnRankZero, ReportsLostPeersOnAllWorkersWithTheSameMessage) {
  std::array<std::string, 3> errors;
  testing::run_ranks(3, [&](Comm& comm) {
    errors[static_cast<std::size_t>(comm.rank())] = testing::message_of<CommError>(
        [&] { on_rank_zero(comm, [] { throw CommError("out: still held"); }); });
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "out: still held");
}

TEST(FromRankZero, ReturnsItsTextAndNumberOnAllWorkers) {
  testing::run_ranks(3, [&](Comm& comm) {
    EXPECT_EQ(from_rank_zero(comm, "text of " + std::to_string(comm.rank())), "text of 0");
    EXPECT_EQ(from_rank_zero(comm, std::string()), "");
    EXPECT_EQ(from_rank_zero(comm, std::int64_t{comm.rank()} + 7), 7);
  });
}

}  // namespace
}  // namespace pfc
