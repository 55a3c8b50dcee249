#include "worker/backbone/arena.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(Arena, ParametersFollowEachOtherOnCacheLines) {
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

TEST(Arena, ANameTwiceIsAnError) {
  Arena arena;
  append_parameter(arena, {.name = "a", .torch_shape = {3}});
  EXPECT_THROW(append_parameter(arena, {.name = "a", .torch_shape = {4}}), std::logic_error);
}

TEST(Arena, AConvolutionIsSeenWithItsChannelsLast) {
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

}  // namespace
}  // namespace pfc
