#include "coordinator/web/live/live_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace pfc {
namespace {

using ::testing::SizeIs;

CurveValue one(double value) { return {value, value, value}; }

TEST(LiveCurves, OmitTheRangesOfPointsThatHaveOnlyOneReport) {
  Curve curve;
  curve.clear(7);
  curve.add({.ms = 1'000,
             .step = 5,
             .generation = 2,
             .reports = 1,
             .loss = one(2.123456789),
             .samples_per_second = one(123.456)});
  const LiveJson json = live_curves(curve, 0, true);
  EXPECT_EQ(json.dump(), R"({"begun_ms":7,"cut":true,"from":0,"rows":[[1000,5,2,2.12346,123.5]]})");
}

TEST(LiveCurves, HaveTheRangeOfPointsOfSeveralReports) {
  Curve curve;
  curve.add({.ms = 1,
             .step = 2,
             .generation = 1,
             .reports = 2,
             .loss = {2, 1, 3},
             .samples_per_second = {20, 10, 30}});
  EXPECT_EQ(live_curves(curve, 0, false)["rows"][0].dump(), "[1,2,1,2.0,20.0,1.0,3.0,10.0,30.0]");
}

TEST(LiveCurves, HaveNullForALossThatIsNotFinite) {
  Curve curve;
  curve.add({.reports = 1,
             .loss = one(std::numeric_limits<double>::quiet_NaN()),
             .samples_per_second = one(std::numeric_limits<double>::infinity())});
  EXPECT_EQ(live_curves(curve, 0, false)["rows"][0].dump(), "[0,0,0,null,null]");
}

TEST(LiveCurves, BeginAtTheRequestedPoint) {
  Curve curve;
  for (int i = 0; i < 10; ++i)
    curve.add({.step = i, .reports = 1, .loss = {}, .samples_per_second = {}});
  const LiveJson json = live_curves(curve, 8, false);
  EXPECT_EQ(json["from"], 8);
  EXPECT_THAT(json["rows"], SizeIs(2));
}

TEST(LivePhases, ShowOnlyTheRanksThatWorkLongestIfThereAreMany) {
  PhaseTimes phases;
  for (Rank rank = 0; rank < 1'000; ++rank) {
    proto::Progress report;
    report.set_step(1);
    for (const auto& [name, seconds] :
         {std::pair("forward", rank == 500 ? 9.0 : 1.0), std::pair("all_gather", 100.0 - rank)}) {
      report.add_phases()->set_phase(name);
      report.mutable_phases(report.phases_size() - 1)->set_seconds(seconds);
    }
    phases.add(rank, {}, report);
  }
  const LiveJson json = live_phases(phases);
  EXPECT_EQ(json["of"], 1'000);
  EXPECT_THAT(json["rows"], SizeIs(kMostBars));
  EXPECT_EQ(json["rows"][0][0], 500);
}

TEST(LiveEvents, AreThoseAfterTheRequestedNumber) {
  EventLog log;
  log.add({.kind = ClusterEvent::Kind::kHost, .rank = {}, .text = "host a has joined"});
  log.add({.ms = 5,
           .kind = ClusterEvent::Kind::kFailure,
           .severity = Severity::kError,
           .rank = 3,
           .text = "rank 3: killed"});
  EXPECT_EQ(
      live_events(log, 1).dump(),
      R"([{"number":2,"ms":5,"kind":"failure","severity":"error","rank":3,"text":"rank 3: killed"}])");
}

TEST(LiveWorkers, HaveOneRowPerWorkerWithTheIndexOfItsHost) {
  proto::StatusReply status;
  status.add_hosts()->set_name("a");
  status.add_hosts()->set_name("b");
  proto::WorkerStatus* const worker = status.add_workers();
  worker->set_rank(1);
  worker->set_host("b");
  worker->set_pid(42);
  worker->set_state("training");
  worker->set_silent_seconds(2.9);
  worker->mutable_progress()->set_step(7);
  worker->mutable_progress()->set_resident_bytes(4096);
  EXPECT_EQ(live_workers(status).dump(), R"([[1,1,0,42,"training",7,"",0,4096,0,"",0,0]])");
}

TEST(LivePlan, AcceptsAnEmptyJob) {
  EXPECT_EQ(live_plan("", {})["job"].dump(), "{}");
  EXPECT_EQ(live_plan(R"({"network":"r50"})", {})["job"]["network"], "r50");
}

TEST(LiveStatus, IsTheSameTextUntilTheStateChanges) {
  proto::StatusReply status;
  status.set_uptime_seconds(10.2);
  const std::string before = live_status(status, 1'000'200).dump();
  status.set_uptime_seconds(15.2);
  EXPECT_EQ(live_status(status, 1'005'200).dump(), before);
}

TEST(LiveQueue, ListsTheNewestEndedJobFirstAndLimitsTheNumberOfJobs) {
  proto::QueueReply queue;
  for (int i = 0; i < 100; ++i) {
    queue.add_jobs()->set_job_id(std::to_string(i));
    queue.mutable_jobs(i)->set_state(i < 50 ? "completed" : "waiting");
    queue.mutable_jobs(i)->set_name("night run");
    queue.mutable_jobs(i)->set_output("/out");
  }
  const LiveJson json = live_queue(queue);
  EXPECT_EQ(json["ended"][0]["job_id"], "49");
  EXPECT_EQ(json["ended"][0]["name"], "night run");
  EXPECT_EQ(json["waiting"][0]["output"], "/out");
  EXPECT_THAT(json["ended"], SizeIs(20));
  EXPECT_THAT(json["waiting"], SizeIs(20));
}

}  // namespace
}  // namespace pfc
