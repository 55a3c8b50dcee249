#include "worker/gradients/weight_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/support/counting_ops.h"
#include "tests/worker/checkpoint/checkpoint_world.h"

namespace pfc {
namespace {

/// A backbone whose weights and statistics are larger than the scratch memory.
class LargeBackbone : public SmallBackbone {
 public:
  static constexpr std::int64_t kCount = (5 << 20) / 4 + 16;
  explicit LargeBackbone(Ops& ops) : SmallBackbone(ops) {
    for (Arena* arena : {&weights, &state}) {
      arena->count = kCount;
      arena->buffer = ops.allocate(arena->bytes());
    }
  }
};

std::vector<float> values_of(const Tensor& t) { return {t.f32(), t.f32() + t.elements()}; }

class AveragedWeights : public ::testing::Test {
 protected:
  /// Returns values that differ by element and update.
  static float value(std::int64_t i, int update) {
    return std::sin(static_cast<float>(i) + 3.f * static_cast<float>(update));
  }
  void change(int update) {
    for (const Tensor& t : {backbone_.weights.flat(), backbone_.state.flat()}) {
      for (std::int64_t i = 0; i < t.elements(); ++i) t.f32()[i] = value(i, update);
    }
  }

  testing::CountingOps ops_{1};
  LargeBackbone backbone_{ops_};
};

TEST_F(AveragedWeights, AreTheMovingAverageAfterAWarmUp) {
  constexpr double kDecay = 0.7;
  WeightAverage average(ops_, backbone_, kDecay);
  constexpr std::int64_t kElements = 50;
  std::vector<double> expected(kElements);
  for (int number = 1; number <= 20; ++number) {
    change(number);
    average.add(number);
    // timm's ModelEmaV3 with use_warmup: the decay is 1 - (1 + t)^(-2/3), where t is the number of
    // updates before this one.
    const double decay = std::min(kDecay, 1 - std::pow(static_cast<double>(number), -2.0 / 3));
    for (std::int64_t i = 0; i < kElements; ++i) {
      double& e = expected[static_cast<std::size_t>(i)];
      e = decay * e + (1 - decay) * static_cast<double>(value(i, number));
      EXPECT_NEAR(average.weights().f32()[i], e, 1e-6) << number;
      EXPECT_NEAR(average.state().f32()[i], e, 1e-6) << number;
    }
  }
}

TEST_F(AveragedWeights, KeepTheBitsOfWeightsThatDoNotChange) {
  change(1);
  WeightAverage average(ops_, backbone_, 0.999);
  for (int number = 1; number <= 50; ++number) average.add(number);
  EXPECT_EQ(values_of(average.weights()), values_of(backbone_.weights.flat()));
}

TEST_F(AveragedWeights, ChangePlacesWithTheWeightsAndBack) {
  change(1);
  WeightAverage average(ops_, backbone_, 0.5);
  const std::vector<float> averages = values_of(backbone_.weights.flat());
  change(2);
  const std::vector<float> own = values_of(backbone_.weights.flat());
  const auto check_exchanged = [&] {
    EXPECT_EQ(values_of(backbone_.weights.flat()), averages);
    EXPECT_EQ(values_of(backbone_.state.flat()), averages);
    EXPECT_FALSE(backbone_.operands_are_current);
    backbone_.operands_are_current = true;  // as after a forward pass
  };
  const auto check_restored = [&] {
    EXPECT_EQ(values_of(backbone_.weights.flat()), own);
    EXPECT_EQ(values_of(backbone_.state.flat()), own);
    EXPECT_EQ(values_of(average.weights()), averages);
    EXPECT_FALSE(backbone_.operands_are_current);
  };
  average.during(check_exchanged);
  check_restored();
  EXPECT_THROW(average.during([&] {
    check_exchanged();
    throw std::runtime_error("an image is damaged");
  }),
               std::runtime_error);
  check_restored();
}

TEST_F(AveragedWeights, AllocateThePlannedBytes) {
  const std::size_t before = ops_.allocated;
  const WeightAverage average(ops_, backbone_, 0.5);
  const WeightAverage::Bytes bytes =
      WeightAverage::bytes(backbone_.weights.bytes(), backbone_.state.bytes());
  EXPECT_EQ(ops_.allocated - before, bytes.averages() + bytes.scratch);
  EXPECT_EQ(bytes.scratch, std::size_t{4} << 20);
}

}  // namespace
}  // namespace pfc
