#include "coordinator/rules/progress/pace.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace pfc {
namespace {

using namespace std::chrono_literals;

class PaceOfAJob : public ::testing::Test {
 protected:
  void tells(std::int64_t step, std::initializer_list<std::pair<std::string, double>> phases,
             bool step_done = true) {
    proto::Progress progress;
    progress.set_step(step);
    for (const auto& [phase, seconds] : phases) {
      progress.add_phases()->set_phase(phase);
      progress.mutable_phases()->rbegin()->set_seconds(seconds);
      progress.mutable_phases()->rbegin()->set_longest(seconds);
    }
    pace.add(progress, step_done);
  }
  void steps(std::int64_t first, std::int64_t last, double seconds) {
    for (std::int64_t step = first; step <= last; ++step) tells(step, {{"forward", seconds}});
  }

  const PaceLimits limits{.floor = 30s, .factor = 10};
  Pace pace;
};

TEST_F(PaceOfAJob, LimitsTheFirstStepsByTheCollectiveTimeout) {
  EXPECT_EQ(pace.limit("forward", limits), 300s);
  steps(5'001, 5'002, 0.1);  // the job has resumed
  EXPECT_EQ(pace.limit("forward", limits), 300s);
  steps(5'003, 5'003, 0.1);
  EXPECT_EQ(pace.limit("forward", limits), 30s);
}

TEST_F(PaceOfAJob, LimitsAStepToTenTimesTheSlowestRecentStep) {
  steps(1, 2, 0.5);
  tells(3, {{"forward", 3}, {"all_gather", 1}, {"checkpoint", 50}});
  steps(4, 66, 0.5);
  EXPECT_EQ(pace.limit("forward", limits), 40s);
  EXPECT_EQ(pace.limit("between phases", limits), 40s);
  steps(67, 67, 0.5);  // step 3 is no longer one of the last 64
  EXPECT_EQ(pace.limit("forward", limits), 30s);
}

TEST_F(PaceOfAJob, CountsAStepOnceForAllWorkers) {
  tells(1, {{"forward", 4}});
  for (int rank = 0; rank < 1'000; ++rank) tells(3, {{"forward", 0.5}});
  EXPECT_EQ(pace.limit("forward", limits), 40s);
}

TEST_F(PaceOfAJob, HasSeparateLimitsForCheckpointsAndEvaluations) {
  steps(1, 10, 0.5);
  EXPECT_EQ(pace.limit("evaluate", limits), 300s);
  EXPECT_EQ(pace.limit("checkpoint", limits), 300s);
  tells(10, {{"evaluate", 0.001}, {"checkpoint", 0.001}, {"log", 0.001}}, false);
  EXPECT_EQ(pace.limit("evaluate", limits), 300s) << "such short times do not count";
  tells(10, {{"evaluate", 5}, {"checkpoint", 2}}, false);
  EXPECT_EQ(pace.limit("evaluate", limits), 120s) << "expected at least four floors";
  EXPECT_EQ(pace.limit("checkpoint", limits), 300s) << "the last checkpoint may wait for the disk";
  tells(10, {{"evaluate", 20}, {"checkpoint", 50}}, false);
  EXPECT_EQ(pace.limit("evaluate", limits), 200s);
  for (const char* phase : {"checkpoint", "write_model", "log", "report"}) {
    EXPECT_EQ(pace.limit(phase, limits), 500s) << phase;
  }
  EXPECT_EQ(pace.limit("forward", limits), 30s) << "these times say nothing about steps";
}

TEST_F(PaceOfAJob, WaitsLongForASearchOfNeighbours) {
  steps(1, 10, 0.5);
  tells(10, {{"evaluate", 20}}, false);
  EXPECT_EQ(pace.limit("neighbours", limits), 1h) << "it may take far longer than an evaluation";
  tells(20, {{"neighbours", 5}}, false);
  EXPECT_EQ(pace.limit("neighbours", limits), 300s);
  tells(30, {{"neighbours", 70}}, false);
  EXPECT_EQ(pace.limit("neighbours", limits), 700s);
  EXPECT_EQ(pace.limit("evaluate", limits), 200s);
  EXPECT_EQ(pace.limit("forward", limits), 30s);
}

TEST_F(PaceOfAJob, HasNoLimitBelowTheFloorOrBeyondAnHour) {
  steps(1, 3, 0.0001);
  EXPECT_EQ(pace.limit("forward", {.floor = 30s, .factor = 1}), 30s);
  steps(4, 4, 1e300);
  EXPECT_EQ(pace.limit("forward", limits), 1h);
}

}  // namespace
}  // namespace pfc
