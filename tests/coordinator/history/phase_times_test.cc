#include "coordinator/history/phase_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pfc {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PhasesOfAStep : public ::testing::Test {
 protected:
  using Samples = std::vector<std::pair<std::string, double>>;

  void reports(Rank rank, std::int64_t step, const Samples& samples) {
    proto::Progress report;
    report.set_step(step);
    for (const auto& [phase, seconds] : samples) {
      proto::PhaseSeconds* const sample = report.add_phases();
      sample->set_phase(phase);
      sample->set_seconds(seconds);
    }
    phases.add(rank, last[rank], report);
    last[rank] = report;
  }

  std::map<Rank, proto::Progress> last;
  PhaseTimes phases;
};

TEST_F(PhasesOfAStep, AreTheMeanOfItsReports) {
  reports(0, 1, {{"forward", 1}, {"backward", 2}});
  reports(0, 2, {{"forward", 2}, {"backward", 2}});
  EXPECT_THAT(phases.names(), ElementsAre("forward", "backward"));
  EXPECT_THAT(phases.seconds_a_step(0), ElementsAre(DoubleEq(1.5), DoubleEq(2)));
}

TEST_F(PhasesOfAStep, AreUnknownBeforeTheFirstStep) {
  reports(1, 0, {{"forward", 1}});
  EXPECT_THAT(phases.seconds_a_step(1), IsEmpty());
  EXPECT_THAT(phases.seconds_a_step(0), IsEmpty());
  EXPECT_THAT(phases.seconds_a_step(7), IsEmpty());
}

TEST_F(PhasesOfAStep, ForgetOldReports) {
  reports(0, 1, {{"forward", 10}});
  for (int step = 2; step < 400; ++step) reports(0, step, {{"forward", 1}});
  EXPECT_NEAR(phases.seconds_a_step(0)[0], 1, 0.01);
}

TEST_F(PhasesOfAStep, KeepAStepThatTakesLongerThanTheWindow) {
  reports(0, 1, {{"evaluate", 600}});
  EXPECT_THAT(phases.seconds_a_step(0), ElementsAre(DoubleEq(600)));
}

TEST_F(PhasesOfAStep, HaveABoundedNumberOfNames) {
  for (int i = 0; i < 100; ++i) reports(0, i + 1, {{"phase " + std::to_string(i), 1}});
  EXPECT_EQ(phases.names().size(), PhaseTimes::kMostNames);
  EXPECT_EQ(phases.names().back(), "other");
}

}  // namespace
}  // namespace pfc
