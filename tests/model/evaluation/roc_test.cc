#include "model/evaluation/roc.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pfc {
namespace {

TEST(Roc, NeverAcceptsAPairWithANanScore) {
  const Roc roc = roc_of({{0.9, true}, {std::nan(""), true}, {0.1, false}, {std::nan(""), false}});
  EXPECT_EQ(tpr_near(roc, 0), 0.5);
  EXPECT_EQ(roc.points.back().fpr, 1);
}

TEST(Roc, TakesTheHighestRateOfEquallyNearPoints) {
  // The FPRs are 0, 0.5 and 1, so 0.25 is as near to 0 as to 0.5.
  const Roc roc = roc_of({{3, true}, {2, false}, {1.5, true}, {1, false}, {0, true}});
  EXPECT_NEAR(tpr_near(roc, 0.25), 2. / 3, 1e-15);
}

TEST(Roc, HasNoErrorIfAThresholdSeparatesThePairs) {
  const Roc roc = roc_of({{2, true}, {3, true}, {1, false}});
  EXPECT_EQ(equal_error_rate(roc), 0);
  EXPECT_EQ(min_detection_cost(roc), 0);
}

TEST(Roc, HasErrorRateOneHalfForEqualScores) {
  const Roc roc = roc_of({{1, true}, {1, false}});
  EXPECT_EQ(equal_error_rate(roc), 0.5);
  EXPECT_EQ(min_detection_cost(roc), 1);
}

}  // namespace
}  // namespace pfc
