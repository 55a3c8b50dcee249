#include "worker/head/sample_margins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace pfc {
namespace {

std::vector<SampleMargin> margins_of(const Loss& loss, const std::vector<double>& lengths,
                                     LossState& state) {
  StepMargins margins{.samples = std::vector<SampleMargin>(lengths.size())};
  sample_margins(loss, {.lengths = lengths}, state, margins);
  return margins.samples;
}

TEST(AdaFaceMargins, FollowTheRunningMeanAndUnbiasedDeviationOfTheLengths) {
  LossState state;                                       // 20 and 100
  const std::vector<double> lengths = {10, 20, 200, 0};  // taken as 10, 20, 100, 0.001
  const auto margins = margins_of(AdaFace{.m = 0.4, .h = 0.333, .t_alpha = 0.25}, lengths, state);
  const double mean = 130.001 / 4;
  const double variance = (std::pow(10 - mean, 2) + std::pow(20 - mean, 2) +
                           std::pow(100 - mean, 2) + std::pow(0.001 - mean, 2)) /
                          3;
  EXPECT_DOUBLE_EQ(state.length_mean, 0.25 * mean + 0.75 * 20);
  EXPECT_DOUBLE_EQ(state.length_deviation, 0.25 * std::sqrt(variance) + 0.75 * 100);
  const double k = 0.333 * (100 - state.length_mean) / (state.length_deviation + 1e-3);
  EXPECT_DOUBLE_EQ(margins[2].margin.m2, -0.4 * k);
  EXPECT_DOUBLE_EQ(margins[2].margin.m3, 0.4 + 0.4 * k);
}

TEST(AdaFaceMargins, ChangeFromArcFacesToCosFacesAndBeyondAsTheLengthGrows) {
  LossState state{.length_mean = 10, .length_deviation = 1};
  const auto margins = margins_of(AdaFace{.m = 0.4, .h = 0.5, .t_alpha = 0}, {1, 10, 99}, state);
  EXPECT_DOUBLE_EQ(margins[0].margin.m2, 0.4);  // ArcFace's
  EXPECT_DOUBLE_EQ(margins[0].margin.m3, 0);
  EXPECT_DOUBLE_EQ(margins[1].margin.m2, 0);  // CosFace's
  EXPECT_DOUBLE_EQ(margins[1].margin.m3, 0.4);
  EXPECT_DOUBLE_EQ(margins[2].margin.m2, -0.4);
  EXPECT_DOUBLE_EQ(margins[2].margin.m3, 0.8);
}

TEST(AdaFaceMargins, OfOneSampleKeepTheDeviation) {
  LossState state;
  margins_of(AdaFace{}, {30}, state);
  EXPECT_GT(state.length_mean, 20);
  EXPECT_EQ(state.length_deviation, 100);
}

TEST(MagFaceMargins, RiseFromTheLowerToTheUpperLength) {
  LossState state;
  const MagFace loss;
  const std::vector<double> lengths = {1, 10, 60, 110, 500};
  StepMargins all{.samples = std::vector<SampleMargin>(lengths.size())};
  sample_margins(loss, {.lengths = lengths}, state, all);
  const std::vector<SampleMargin>& margins = all.samples;
  const double expected[] = {0.45, 0.45, 0.625, 0.8, 0.8};
  double sum = 0;
  for (std::size_t i = 0; i < margins.size(); ++i) {
    EXPECT_NEAR(margins[i].margin.m2, expected[i], 1e-15);
    const double a = std::min(std::max(lengths[i], 10.0), 110.0);
    sum += a / (110 * 110) + 1 / a;
    const bool outside = lengths[i] < 10 || lengths[i] > 110;
    EXPECT_DOUBLE_EQ(margins[i].m2_slope, outside ? 0 : 0.35 / 100);
    EXPECT_EQ(margins[i].regulariser == 0, outside || lengths[i] == 110);
  }
  EXPECT_NEAR(all.added, 35 * sum / 5, 1e-12);
  EXPECT_EQ(state, LossState{});
}

TEST(ElasticMargins, AreNormallyDistributedAndDependOnSeedStepAndSample) {
  LossState state;
  const auto drawn = [&](std::uint64_t seed, std::int64_t step, std::int64_t first) {
    StepMargins margins{.samples = std::vector<SampleMargin>(20000)};
    sample_margins(ElasticArcFace{.m = 0.5, .std = 0.05},
                   {.seed = seed, .step = step, .first = first}, state, margins);
    std::vector<double> m2;
    for (const SampleMargin& each : margins.samples) m2.push_back(each.margin.m2);
    return m2;
  };
  const std::vector<double> margins = drawn(7, 3, 0);
  double sum = 0, squares = 0;
  for (const double m : margins) sum += m;
  const double mean = sum / 20000;
  for (const double m : margins) squares += (m - mean) * (m - mean);
  EXPECT_NEAR(mean, 0.5, 0.002);
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.05, 0.001);
  EXPECT_EQ(drawn(7, 3, 0), margins);
  EXPECT_EQ(drawn(7, 3, 100)[0], margins[100]);  // the second micro-batch of 100 samples
  EXPECT_NE(drawn(8, 3, 0)[0], margins[0]);
  EXPECT_NE(drawn(7, 4, 0)[0], margins[0]);
}

TEST(ElasticMargins, OfElasticCosFaceAreAdditive) {
  LossState state;
  StepMargins margins{.samples = std::vector<SampleMargin>(2)};
  sample_margins(ElasticCosFace{.m = 0.35, .std = 0}, {.seed = 1}, state, margins);
  EXPECT_EQ(margins.samples[1].margin, (Margin{.m1 = 1, .m2 = 0, .m3 = 0.35}));
}

TEST(ElasticMargins, OfElasticFacePlusAreSmallerForSamplesNearerToTheirCentres) {
  LossState state;
  StepMargins plain{.samples = std::vector<SampleMargin>(4)}, plus = plain;
  const std::vector<float> cosines = {0.1f, 0.9f, -0.5f, 0.3f};
  sample_margins(ElasticArcFace{}, {.seed = 3}, state, plain);
  sample_margins(ElasticArcFace{.plus = true}, {.target_cosines = cosines, .seed = 3}, state, plus);
  const auto sorted = [](const StepMargins& margins) {
    std::vector<double> m2;
    for (const SampleMargin& each : margins.samples) m2.push_back(each.margin.m2);
    std::ranges::sort(m2);
    return m2;
  };
  EXPECT_EQ(sorted(plus), sorted(plain));
  const std::vector<double> m2 = sorted(plus);
  EXPECT_EQ(plus.samples[1].margin.m2, m2[0]);
  EXPECT_EQ(plus.samples[3].margin.m2, m2[1]);
  EXPECT_EQ(plus.samples[0].margin.m2, m2[2]);
  EXPECT_EQ(plus.samples[2].margin.m2, m2[3]);
}

TEST(CurricularFaceMargins, UpdateTBeforeTheyUseIt) {
  LossState state{.target_cosine = 0.2};
  StepMargins margins{.samples = std::vector<SampleMargin>(2)};
  const std::vector<float> cosines = {0.5f, 0.f};
  sample_margins(CurricularFace{.m = 0.5, .t_alpha = 0.1}, {.target_cosines = cosines}, state,
                 margins);
  EXPECT_DOUBLE_EQ(state.target_cosine, 0.9 * 0.2 + 0.1 * 0.25);
  EXPECT_FLOAT_EQ(margins.hardness, 0.205f);
  EXPECT_FLOAT_EQ(margins.hard_above[0], static_cast<float>(std::cos(std::acos(0.5) + 0.5)));
  EXPECT_FLOAT_EQ(margins.hard_above[1], static_cast<float>(-std::sin(0.5)));
  EXPECT_EQ(margins.samples[1].margin, (Margin{.m1 = 1, .m2 = 0.5, .m3 = 0}));
}

TEST(LossState, KeepsItsBitsAsJson) {
  const LossState state{
      .length_mean = 0.1 + 0.2, .length_deviation = 1.0 / 3, .target_cosine = 1.0 / 7};
  EXPECT_EQ(loss_state_of(nlohmann::json::parse(to_json(state).dump())), state);
  EXPECT_EQ(loss_state_of({{"length_mean", 0.5}}), LossState{.length_mean = 0.5});
  EXPECT_THROW(loss_state_of({{"length_mean", "long"}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace pfc
