#include "worker/gradients/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/make_ops.h"
#include "tests/support/counting_ops.h"

namespace pfc {
namespace {

class OptimizerStep : public ::testing::Test {
 protected:
  /// Applies twenty updates with the same gradients and the same falling learning rate as in
  /// PyTorch.
  std::vector<float> twenty_steps(OptimizerKind kind, double clip_norm) {
    const bool sgd = kind == OptimizerKind::kSgd;
    Optimizer optimizer(*ops_, {.kind = kind, .momentum = 0.9, .clip_norm = clip_norm}, 6,
                        {{.count = 6, .weight_decay = sgd ? 5e-4 : 0.1}});
    std::vector<float> w = {0.5f, -1.25f, 2.f, 0.f, -0.75f, 1.5f};
    for (int s = 1; s <= 20; ++s) {
      std::vector<float> g;
      for (int i = 1; i <= 6; ++i) g.push_back(static_cast<float>(std::sin(s * i) * s * 0.3));
      const double lr = (sgd ? 0.1 : 0.01) * (1 - s / 40.0);
      last_ = optimizer.step(flat(g), flat(w), {.lr = lr, .number = s});
    }
    return w;
  }

  static Tensor flat(std::vector<float>& values) {
    return {values.data(), Shape{static_cast<std::int64_t>(values.size())}};
  }
  static void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }

  std::unique_ptr<Ops> ops_ = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  Optimizer::Result last_;
};

TEST(OptimizerMemory, EqualsWhatTheOptimizerAllocates) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    testing::CountingOps ops(1);
    const Optimizer optimizer(ops, {.kind = kind}, 1000, {{.count = 1000}});
    EXPECT_EQ(Optimizer::bytes(kind, 1000), ops.allocated);
  }
}

TEST_F(OptimizerStep, ReturnsTheNormEvenWithoutClipping) {
  Optimizer optimizer(*ops_, {.clip_norm = 0}, 2, {{.count = 2}});
  std::vector<float> w = {1, 2}, g = {3, 4};
  EXPECT_DOUBLE_EQ(optimizer.step(flat(g), flat(w), {.lr = 0.1}).gradient_norm, 5);
}

TEST_F(OptimizerStep, SgdAgreesWithTorch) {
  expect_near(twenty_steps(OptimizerKind::kSgd, 0),
              {0.746198118f, -1.35330021f, 2.0055964f, 0.0749864951f, -0.951336026f, 1.59089816f});
  EXPECT_NEAR(last_.gradient_norm, 10.5006895, 1e-5);
}

TEST_F(OptimizerStep, SgdWithClippingAgreesWithTorch) {
  expect_near(twenty_steps(OptimizerKind::kSgd, 5),
              {0.669888854f, -1.29095459f, 2.09028077f, 0.0284388885f, -0.820632339f, 4.11591768f});
  EXPECT_NEAR(last_.gradient_norm, 10.5006895, 1e-5);
}

TEST_F(OptimizerStep, AdamWAgreesWithTorch) {
  expect_near(twenty_steps(OptimizerKind::kAdamW, 0),
              {0.473980367f, -1.23628616f, 1.96431518f, 0.00752603728f, -0.725749314f, 1.5499953f});
}

TEST_F(OptimizerStep, AdamWWithClippingAgreesWithTorch) {
  expect_near(twenty_steps(OptimizerKind::kAdamW, 5), {0.474155754f, -1.23604929f, 1.96498942f,
                                                       0.00732228206f, -0.725265861f, 1.55834186f});
}

// Expected values of torch 1.13 in float64 with the parameter groups {lr, weight_decay}: element 0
// {1, 0}, elements 2 and 3 {0.1, 0.05}, elements 4 and 5 {3, 0.2}. Element 1 is in no group.
TEST_F(OptimizerStep, WithGroupsAgreesWithTorch) {
  const auto values_after = [&](OptimizerKind kind, int steps) {
    const bool sgd = kind == OptimizerKind::kSgd;
    Optimizer optimizer(*ops_, {.kind = kind, .clip_norm = 0}, 6,
                        {{.count = 1},
                         {.offset = 2, .count = 2, .lr = 0.1, .weight_decay = 0.05},
                         {.offset = 4, .count = 2, .lr = 3, .weight_decay = 0.2}});
    std::vector<float> w = {0.5f, -1.25f, 2.f, 0.f, -0.75f, 1.5f};
    for (int s = 1; s <= steps; ++s) {
      std::vector<float> g;
      for (int i = 1; i <= 6; ++i) g.push_back(static_cast<float>(std::sin(s * i) * s * 0.3));
      optimizer.step(flat(g), flat(w), {.lr = (sgd ? 0.1 : 0.01) * (1 - s / 40.0), .number = s});
    }
    EXPECT_EQ(optimizer.momentum().f32()[1], 0);
    return w;
  };
  expect_near(values_after(OptimizerKind::kSgd, 1),
              {0.475386974f, -1.25f, 1.99861222f, 0.00221364730f, -0.621979395f, 1.43676871f});
  expect_near(values_after(OptimizerKind::kSgd, 20),
              {0.748101615f, -1.25f, 1.91955933f, 0.00748956346f, -0.498523514f, -14.0110741f});
  expect_near(values_after(OptimizerKind::kAdamW, 1),
              {0.490250000f, -1.25f, 1.99892750f, 0.000974999957f, -0.716362501f, 1.52047500f});
  expect_near(values_after(OptimizerKind::kAdamW, 20),
              {0.481030320f, -1.25f, 1.99787781f, 0.000762230891f, -0.649416481f, 1.57631765f});
}

// A backbone whose first weights are frozen has such gradients.
TEST_F(OptimizerStep, AcceptsGradientsOfOnlyTheLastWeights) {
  Optimizer optimizer(*ops_, {.momentum = 0, .clip_norm = 0}, 3, {{.offset = 1, .count = 2}});
  std::vector<float> w = {1, 2, 3}, g = {10, 20};
  optimizer.step(flat(g), flat(w), {.lr = 0.1});
  EXPECT_EQ(w, (std::vector<float>{1, 1, 1}));
}

TEST_F(OptimizerStep, ChangesNothingWhenAGradientIsNotFinite) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    for (const double clip : {0.0, 5.0}) {
      for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        Optimizer optimizer(*ops_, {.kind = kind, .clip_norm = clip}, 3, {{.count = 3}});
        std::vector<float> w = {1, 2, 3};
        std::vector<float> g = {0.1f, bad, 0.3f};
        EXPECT_FALSE(optimizer.step(flat(g), flat(w), {.lr = 0.1}).finite);
        EXPECT_EQ(w, (std::vector<float>{1, 2, 3}));
        EXPECT_EQ(optimizer.momentum().f32()[0], 0);
      }
    }
  }
}

TEST_F(OptimizerStep, ClipsHugeFiniteGradients) {
  Optimizer optimizer(*ops_, {.momentum = 0, .clip_norm = 5}, 2, {{.count = 2}});
  std::vector<float> w = {0, 0};
  std::vector<float> g = {3e30f, 4e30f};  // their squares are too large for float32
  const auto result = optimizer.step(flat(g), flat(w), {.lr = 1});
  EXPECT_TRUE(result.finite);
  EXPECT_NEAR(result.gradient_norm, 5e30, 1e24);
  EXPECT_NEAR(w[0], -3, 1e-5);
  EXPECT_NEAR(w[1], -4, 1e-5);
}

TEST_F(OptimizerStep, UndoesTheLossScale) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    for (const double clip : {0.0, 0.1, 5.0}) {
      const std::vector<ParameterGroup> all = {{.count = 3, .weight_decay = 5e-4}};
      Optimizer plain(*ops_, {.kind = kind, .clip_norm = clip}, 3, all);
      Optimizer scaled(*ops_, {.kind = kind, .clip_norm = clip}, 3, all);
      std::vector<float> w = {1, 2, 3}, v = w, g = {0.1f, -0.2f, 0.3f}, h = g;
      for (float& x : h) x *= 1024;
      const double norm = plain.step(flat(g), flat(w), {.lr = 0.1}).gradient_norm;
      EXPECT_EQ(scaled.step(flat(h), flat(v), {.lr = 0.1, .loss_scale = 1024}).gradient_norm, norm);
      for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(v[i], w[i], 1e-6);
    }
  }
}

TEST_F(OptimizerStep, AcceptsAZeroGradient) {
  Optimizer optimizer(*ops_, {}, 2, {{.count = 2}});
  std::vector<float> w = {1, 2}, g = {0, 0};
  EXPECT_TRUE(optimizer.step(flat(g), flat(w), {.lr = 0.1}).finite);
  EXPECT_EQ(w, (std::vector<float>{1, 2}));
}

TEST_F(OptimizerStep, OnlyAdamWHasASecondMoment) {
  EXPECT_FALSE(Optimizer(*ops_, {.kind = OptimizerKind::kSgd}, 2, {{.count = 2}}).second());
  EXPECT_TRUE(Optimizer(*ops_, {.kind = OptimizerKind::kAdamW}, 2, {{.count = 2}}).second());
}

}  // namespace
}  // namespace pfc
