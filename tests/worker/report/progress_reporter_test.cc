#include "worker/report/progress_reporter.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// Keeps what is reported, and tells a waiting test of a phase.
class ListeningClient final : public CoordinatorClient {
 public:
  void set(const std::string&, const std::vector<char>&) override {}
  std::vector<char> get(const std::string&, std::chrono::milliseconds) override { return {}; }
  JoinResult join(std::chrono::milliseconds) override { return {}; }
  [[nodiscard]] bool stop_requested() const override { return false; }
  [[nodiscard]] bool superseded() const override { return false; }
  bool finish(Outcome, const std::string&) override { return true; }

  void report(const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    reports_.push_back(progress);
    heard_.notify_all();
  }

  std::vector<Progress> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(heard_.wait_for(lock, 30s, [&] { return reports_.size() >= count; }));
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<Progress> reports_;
};

TEST(ProgressReporter, ReportsThePhaseThatRunsNotTheOneThatRanAtUpdate) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase, {}, 1h);
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
  ProgressReporter reporter(client, phase, {}, 1h);
  phase("forward", [&] {
    for (int tick = 0; tick < 3; ++tick) reporter.report();
  });
  EXPECT_EQ(client.wait_for(1).size(), 1U);
}

TEST(ProgressReporter, ReportsEverySampleOnceWhenATickHasSeveralSteps) {
  ListeningClient client;
  const PhaseTimer phase;
  ProgressReporter reporter(client, phase, {}, 1h);
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

TEST(ProgressReporter, LooksAtThePhaseEveryTick) {
  ListeningClient client;
  PhaseTimer phase;
  ProgressReporter reporter(client, phase, {.step = 7}, 1ms);
  phase("evaluate", [&] {
    const auto reports = client.wait_for(1);
    EXPECT_EQ(reports.back().phase, "evaluate");
    EXPECT_EQ(reports.back().step, 7);
  });
}

TEST(ProgressReporter, ReportsTheLastStepWhenItIsDestroyed) {
  ListeningClient client;
  const PhaseTimer phase;
  {
    ProgressReporter reporter(client, phase, {}, 1h);
    reporter.update({.step = 9});
  }
  EXPECT_EQ(client.wait_for(1).back().step, 9);
}

}  // namespace
}  // namespace pfc
