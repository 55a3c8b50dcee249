#include "worker/head/row_health.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pfc::testing {
namespace {

TEST(RowHealth, MeasuresRowsOverSeveralPieces) {
  RowHealth health(2);
  health.add(std::vector<float>{3, 4, 0, 1});
  health.add(std::vector<float>{1e30f, 0});
  EXPECT_EQ(health.rows(), 3);
  EXPECT_EQ(health.not_finite(), 0);
  EXPECT_EQ(health.first_bad_row(), -1);
  EXPECT_DOUBLE_EQ(health.shortest(), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(health.longest()), 1e30f);
  EXPECT_FLOAT_EQ(static_cast<float>(health.norm()), 1e30f);
}

TEST(RowHealth, CountsNonFiniteValuesAndReturnsTheirFirstRow) {
  RowHealth health(3);
  health.add(std::vector<float>{1, 2, 2});
  health.add(std::vector<float>{NAN, 5, -INFINITY, 0, 0, INFINITY});
  EXPECT_EQ(health.not_finite(), 3);
  EXPECT_EQ(health.first_bad_row(), 1);
  EXPECT_DOUBLE_EQ(health.shortest(), 3);
  EXPECT_DOUBLE_EQ(health.longest(), 3);
  EXPECT_FALSE(std::isfinite(health.norm()));
}

TEST(RowHealth, FindsNothingWrongWithoutRows) {
  const RowHealth health(3);
  EXPECT_EQ(health.rows(), 0);
  EXPECT_EQ(health.not_finite(), 0);
  EXPECT_TRUE(std::isinf(health.shortest()));
  EXPECT_EQ(health.norm(), 0);
}

}  // namespace
}  // namespace pfc::testing
