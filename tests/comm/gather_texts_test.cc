#include "comm/gather_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

TEST(GatherTexts, ReturnsAllTextsByRankOnEveryWorker) {
  testing::run_ranks(3, [](Comm& comm) {
    const std::vector<std::string> texts = gather_texts(comm, std::string(comm.rank() * 2, 'x'));
    EXPECT_THAT(texts, ElementsAre("", "xx", "xxxx"));
  });
}

TEST(GatherTexts, ReturnsEmptyTextsIfAllAreEmpty) {
  testing::run_ranks(2,
                     [](Comm& comm) { EXPECT_THAT(gather_texts(comm, ""), ElementsAre("", "")); });
}

}  // namespace
}  // namespace pfc
