#include "common/config/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace pfc {
namespace {

const std::vector<std::string> kKnown{"batch_size", "lr", "lr_schedule", "sample_rate", "seed"};

TEST(NearestWord, FindsAWordWithALetterRemovedAddedOrChanged) {
  EXPECT_EQ(nearest_word("batchsize", kKnown), "batch_size");
  EXPECT_EQ(nearest_word("batch__size", kKnown), "batch_size");
  EXPECT_EQ(nearest_word("sample_rete", kKnown), "sample_rate");
}

TEST(NearestWord, CountsTwoSwappedLettersAsOneMistake) {
  const std::vector<std::string> known{"abcd", "xbad"};
  EXPECT_EQ(nearest_word("bacd", known), "abcd");
  EXPECT_EQ(nearest_word("esed", kKnown), "seed");
}

TEST(NearestWord, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest_word("wandb_project", kKnown), "");
  EXPECT_EQ(nearest_word("qq", kKnown), "");
  EXPECT_EQ(nearest_word("", kKnown), "");
  EXPECT_EQ(nearest_word("lr", {}), "");
}

TEST(NearestWord, AllowsAThirdOfALongWordToDiffer) {
  const std::vector<std::string> known{"interclass_filtering_threshold"};
  EXPECT_EQ(nearest_word("inter_class_filter_threshold", known), known[0]);
}

TEST(NearestWord, ReturnsTheFirstOfEquallyNearWords) {
  const std::vector<std::string> known{"abc1", "abc2"};
  EXPECT_EQ(nearest_word("abc3", known), "abc1");
}

TEST(NearestWord, IgnoresVeryLongWords) {
  EXPECT_EQ(nearest_word(std::string(1 << 20, 's'), kKnown), "");
}

}  // namespace
}  // namespace pfc
