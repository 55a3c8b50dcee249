#include "model/networks/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace pfc {
namespace {

TEST(Arena, ParametersStartOnCacheLinesInOrder) {
  Arena arena;
  append_parameter(arena, {.name = "a", .torch_shape = {3}});
  append_parameter(arena, {.name = "b", .torch_shape = {4, 5}});
  append_parameter(arena, {.name = "c", .torch_shape = {16}});
  ASSERT_EQ(arena.parameters.size(), 3U);
  EXPECT_EQ(arena.parameters[0].offset, 0);
  EXPECT_EQ(arena.parameters[1].offset, 16);
  EXPECT_EQ(arena.parameters[1].count, 20);
  EXPECT_EQ(arena.parameters[2].offset, 48);
  EXPECT_EQ(arena.count, 64);
}

TEST(Arena, RejectsADuplicateName) {
  Arena arena;
  append_parameter(arena, {.name = "a", .torch_shape = {3}});
  EXPECT_THROW(append_parameter(arena, {.name = "a", .torch_shape = {4}}), std::logic_error);
}

TEST(Arena, ConvolutionViewHasChannelsLast) {
  Arena arena;
  append_parameter(arena, {.name = "bn", .torch_shape = {7}});
  append_parameter(
      arena,
      {.name = "conv", .torch_shape = {8, 4, 3, 5}, .layout = ParameterLayout::kConvolution});
  std::vector<float> memory(static_cast<std::size_t>(arena.count));
  const Tensor view = parameter_view(arena.parameters[1], Tensor(memory.data(), {arena.count}));
  EXPECT_EQ(view.shape, (Shape{8, 3, 5, 4}));
  EXPECT_EQ(view.data, memory.data() + 16);
}

std::vector<float> filled(const Initial& initial, std::size_t n, std::uint64_t seed = 1,
                          std::uint32_t parameter = 0) {
  std::vector<float> values(n);
  fill_initial(initial, seed, parameter, values);
  return values;
}

double moment(const std::vector<float>& values, int power) {
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, float v) { return sum + std::pow(v, power); }) /
         static_cast<double>(values.size());
}

TEST(InitialValues, NormalHasTheMomentsOfANormalDistribution) {
  const auto v = filled(normal(0.1f), 1'000'000);
  EXPECT_NEAR(moment(v, 1), 0, 5e-4);
  EXPECT_NEAR(moment(v, 2), 0.01, 1e-4);
  EXPECT_NEAR(moment(v, 4), 3e-4, 1e-5);
}

TEST(InitialValues, UniformFillsItsInterval) {
  const auto v = filled(uniform(0.5f), 1'000'000);
  EXPECT_NEAR(moment(v, 1), 0, 2e-3);
  EXPECT_NEAR(moment(v, 2), 0.25 / 3, 1e-3);
  EXPECT_LE(*std::max_element(v.begin(), v.end()), 0.5f);
  EXPECT_GE(*std::min_element(v.begin(), v.end()), -0.5f);
}

TEST(InitialValues, ElementDependsOnlyOnSeedParameterAndIndex) {
  const auto longer = filled(normal(1.f), 103);
  const auto shorter = filled(normal(1.f), 101);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  EXPECT_NE(filled(normal(1.f), 101, 2), shorter);
  EXPECT_NE(filled(normal(1.f), 101, 1, 1), shorter);
}

TEST(InitialValues, ConstantFillsAllElements) {
  EXPECT_EQ(filled(constant(0.25f), 3), std::vector(3, 0.25f));
}

}  // namespace
}  // namespace pfc
