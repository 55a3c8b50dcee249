#include "worker/coordinator_link/progress_reporter.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "tests/worker/coordinator_link/listening_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::ListeningClient;

std::vector<Progress::CommTotal> no_comms() { return {}; }

TEST(ProgressReporter, ReportsThePhaseAtTheTimeOfTheReport) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase, {.comms = no_comms, .tick = 1h});
  reporter.update({.step = 7, .phases = {{"forward", 0.5}}});
  phase("forward", [&] { reporter.report(); });
  const auto reports = client.wait_for(1);
  EXPECT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].phase, "forward");
  EXPECT_EQ(reports[0].step, 7);
  EXPECT_EQ(reports[0].phases.size(), 1U);
}

TEST(ProgressReporter, ReportsNothingWhenNothingHasChanged) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase, {.comms = no_comms, .tick = 1h});
  phase("forward", [&] {
    for (int tick = 0; tick < 3; ++tick) reporter.report();
  });
  EXPECT_EQ(client.wait_for(1).size(), 1U);
}

TEST(ProgressReporter, ReportsACollectiveThatHasBegunOrEndedInTheSamePhase) {
  ListeningClient client;
  PhaseTimer phase;
  std::vector<Progress::CommTotal> comms{{.purpose = "step", .calls = 1, .done = 1}};
  ProgressReporter reporter(client, phase, {.comms = [&] { return comms; }, .tick = 1h});
  reporter.report();
  comms[0].calls = 2;
  comms[0].newest = "all_gather";
  reporter.report();
  reporter.report();
  comms[0].done = 2;
  reporter.report();
  const auto reports = client.wait_for(3);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[1].comm[0].calls, 2U);
  EXPECT_EQ(reports[1].comm[0].done, 1U);
  EXPECT_EQ(reports[1].comm[0].newest, "all_gather");
  EXPECT_EQ(reports[2].comm[0].done, 2U);
}

TEST(ProgressReporter, ReportsEachPhaseTimeOnceIfSeveralStepsEndBetweenReports) {
  ListeningClient client;
  const PhaseTimer phase;
  ProgressReporter reporter(client, phase, {.comms = no_comms, .tick = 1h});
  reporter.update({.step = 1, .phases = {{"forward", 0.5}}});
  reporter.add_phases({{"checkpoint", 0.25}});
  reporter.update({.step = 2, .phases = {{"forward", 0.75}}});
  reporter.report();
  reporter.update({.step = 3});
  reporter.report();
  const auto reports = client.wait_for(2);
  ASSERT_EQ(reports[0].phases.size(), 3U);
  EXPECT_EQ(reports[0].step, 2);
  EXPECT_EQ(reports[0].phases[1].phase, "checkpoint");
  EXPECT_EQ(reports[0].phases[2].seconds, 0.75);
  EXPECT_TRUE(reports[1].phases.empty());
}

TEST(ProgressReporter, ReadsThePhaseEveryTick) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase, {.comms = no_comms, .start = {.step = 7}, .tick = 1ms});
  phase("evaluate", [&] {
    auto reports = client.wait_for(1);
    // The first tick may have come before the phase began.
    while (reports.back().phase != "evaluate") reports = client.wait_for(reports.size() + 1);
    EXPECT_EQ(reports.back().step, 7);
  });
}

TEST(ProgressReporter, ReportsCpuTimeEvenIfNothingElseChanges) {
  ListeningClient client;
  const PhaseTimer phase;
  double seconds = 0;
  const ProgressReporter reporter(
      client, phase,
      {.comms = no_comms,
       .vitals = [&] { return ProcessVitals{.cpu_seconds = ++seconds}; },
       .tick = 1ms,
       .vitals_pause = 1ms});
  const auto reports = client.wait_for(3);
  EXPECT_EQ(reports[0].vitals.cpu_seconds, 1);
  EXPECT_EQ(reports[2].vitals.cpu_seconds, 3);
}

TEST(ProgressReporter, KeepsCpuTimeInTheReportOfAStep) {
  ListeningClient client;
  const PhaseTimer phase;
  ProgressReporter reporter(client, phase,
                            {.comms = no_comms,
                             .vitals = [] { return ProcessVitals{.cpu_seconds = 5}; },
                             .tick = 1ms,
                             .vitals_pause = 1h});
  client.wait_for(1);
  reporter.update({.step = 9});
  EXPECT_EQ(client.wait_for(2).back().vitals.cpu_seconds, 5);
}

TEST(ProgressReporter, ReportsTheLastStepWhenItIsDestroyed) {
  ListeningClient client;
  const PhaseTimer phase;
  {
    ProgressReporter reporter(client, phase, {.comms = no_comms, .tick = 1h});
    reporter.update({.step = 9});
  }
  EXPECT_EQ(client.wait_for(1).back().step, 9);
}

TEST(ProgressReporter, ReportsStartingUntilTheFirstBatchArrives) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase,
                            {.comms = no_comms, .start = {.starting = true}, .tick = 1h});
  phase("data_wait", [&] { reporter.report(); });
  phase("images", [&] { reporter.report(); });
  const auto reports = client.wait_for(2);
  EXPECT_TRUE(reports[0].starting);
  EXPECT_FALSE(reports[1].starting);
}

}  // namespace
}  // namespace pfc
