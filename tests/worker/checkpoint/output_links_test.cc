#include "worker/checkpoint/output_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <thread>

#include "comm/rank_zero.h"
#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/two_hosts.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WhoSees : public ::testing::Test {
 protected:
  [[nodiscard]] bool both_are_empty() const {
    return std::filesystem::is_empty(a_.path()) && std::filesystem::is_empty(b_.path());
  }
  const TemporaryFolder a_, b_;
};

TEST_F(WhoSees, IncludesEveryWorkerIfTheFolderIsShared) {
  testing::run_ranks(3, [&](Comm& comm) {
    EXPECT_THAT(who_sees(comm, a_.path(), 0ms), ElementsAre(true, true, true));
  });
  EXPECT_TRUE(both_are_empty());
}

TEST_F(WhoSees, ExcludesAWorkerWithAnotherFolder) {
  testing::run_ranks(3, [&](Comm& comm) {
    const auto& folder = comm.rank() == 2 ? b_ : a_;
    EXPECT_THAT(who_sees(comm, folder.path(), 1ms), ElementsAre(true, true, false));
  });
  EXPECT_TRUE(both_are_empty());
}

TEST_F(WhoSees, ExcludesAWorkerWithoutTheFolder) {
  testing::run_ranks(2, [&](Comm& comm) {
    const auto folder = comm.rank() == 1 ? b_ / "not/there" : a_.path();
    EXPECT_THAT(who_sees(comm, folder, 1ms), ElementsAre(true, false));
  });
}

TEST_F(WhoSees, WaitsForAFileThatAppearsLate) {
  // Rank 1's folder becomes a link to rank 0's only after rank 1 has begun to look.
  const auto late = b_ / "late";
  std::thread appears([&] {
    while (std::filesystem::is_empty(a_.path())) std::this_thread::yield();
    std::filesystem::create_directory_symlink(a_.path(), late);
  });
  testing::run_ranks(2, [&](Comm& comm) {
    const auto folder = comm.rank() == 1 ? late : a_.path();
    EXPECT_THAT(who_sees(comm, folder, 60s), ElementsAre(true, true));
  });
  appears.join();
}

TEST_F(WhoSees, FailsOnAllWorkersInTheSameWordsIfTheFileCannotBeWritten) {
  std::array<std::string, 2> errors;
  testing::run_ranks(2, [&](Comm& comm) {
    errors[static_cast<std::size_t>(comm.rank())] =
        testing::message_of<InputError>([&] { (void)who_sees(comm, a_ / "not/there", 1ms); });
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("not/there"), HasSubstr("No such file or directory")));
  EXPECT_EQ(errors[0], errors[1]);
}

TEST_F(WhoSees, LeavesNoFileWhenAWorkerIsLost) {
  EXPECT_THROW(testing::run_ranks(2,
                                  [&](Comm& comm) {
                                    if (comm.rank() == 1) {  // rank 1 fails when it should look
                                      (void)from_rank_zero(comm, std::string());
                                      on_rank_zero(comm, [] {});
                                      EXPECT_FALSE(both_are_empty());
                                      throw CommError("lost");
                                    }
                                    (void)who_sees(comm, a_.path(), 1ms);
                                  }),
               CommError);
  EXPECT_TRUE(both_are_empty());
}

TEST(OutputLinks, AreEmptyIfAllWorkersSeeTheFolder) {
  const testing::TwoHosts hosts(3, 3);
  for (int rank = 0; rank < 3; ++rank) {
    const OutputLinks links = hosts.links(rank);
    EXPECT_TRUE(links.shared());
    EXPECT_TRUE(links.comms().empty());
  }
}

TEST(OutputLinks, ConnectWorkersThatDoNotSeeTheFolderToRankZero) {
  const testing::TwoHosts hosts(4, 2);
  EXPECT_EQ(hosts.links(0).remote.size(), 2U);
  EXPECT_EQ(hosts.links(1).comms().size(), 0U);
  EXPECT_NE(hosts.links(2).to_rank_zero, nullptr);
  for (int rank = 0; rank < 4; ++rank) EXPECT_FALSE(hosts.links(rank).shared());
}

TEST(OutputLinks, NameHostsWithAndWithoutTheFolder) {
  const testing::TwoHosts hosts(4, 2);
  const std::vector<std::string> names{"a", "a", "b", "b"};
  EXPECT_EQ(
      not_shared_message(hosts.links(0), names, "/out"),
      "output: /out is not shared: the folder of host a is used, and checkpoints are sent over "
      "the network to and from b");
}

}  // namespace
}  // namespace pfc
