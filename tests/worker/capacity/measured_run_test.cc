#include "worker/capacity/measured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

nlohmann::json start(int workers = 1) {
  return {{"kind", "start"},
          {"network", "mbf"},
          {"device", "cpu"},
          {"classes", 1000},
          {"workers", workers},
          {"batch_size", 4},
          {"global_batch", 4 * workers}};
}

nlohmann::json step(double seconds) {
  return {{"kind", "step"},
          {"phases", {{"forward", seconds}, {"backward", 2 * seconds}, {"head", seconds}}}};
}

class MeasuredRun : public ::testing::Test {
 protected:
  void write(const std::vector<nlohmann::json>& events) {
    std::ofstream out(folder_ / "metrics.jsonl");
    for (const auto& event : events) out << event.dump() << "\n";
    out << "{\"kind\": \"st";  // an incomplete last line
  }
  Corrections corrections() const { return corrections_of_run(folder_ / "", planned_, cluster_); }
  [[nodiscard]] std::string refusal() const {
    return message_of<InputError>([&] { corrections(); });
  }

  TemporaryFolder folder_;
  PlannedJob planned_{.job = {.network = "r50", .batch_size = 8, .num_classes = 5000}};
  ClusterModel cluster_{.machine = {.cores = 1, .roofline = {.per_flop = 1e-9}, .local = {}}};
};

TEST_F(MeasuredRun, ComparesTheMedianOfItsLaterStepsWithItsOwnPlan) {
  std::vector<nlohmann::json> events{start(), step(900), start()};
  for (const double seconds : {90., 80., 70., 1., 1., 2., 3., 3.}) events.push_back(step(seconds));
  write(events);
  const Corrections found = corrections();
  PlannedJob was = planned_;
  was.job.network = "mbf";
  was.job.batch_size = 4;
  was.job.num_classes = 1000;
  const StepCost said = predict_step(count_step(was), 4, 112L * 112, cluster_);
  EXPECT_NEAR(found.at("forward"), 2 / said.of("forward"), 1e-9);
  EXPECT_NEAR(found.at("head"), 2 / said.of("head"), 1e-9);
}

TEST_F(MeasuredRun, ReportsWhyItCannotBeComparedWithThePlan) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("metrics.jsonl"), HasSubstr("cannot open")));
  write({start(), step(1)});
  EXPECT_THAT(refusal(), HasSubstr("found 1 steps after the last start, expected at least 8"));
  std::vector<nlohmann::json> events{start()};
  for (int i = 0; i < 9; ++i) events.push_back(step(1));
  planned_.gpu = true;
  write(events);
  EXPECT_THAT(refusal(), HasSubstr("found a run on 'cpu'"));
  planned_.gpu = false;
  events[0].erase("workers");
  write(events);
  EXPECT_THAT(refusal(), HasSubstr("workers"));
  events[0] = start();
  events[5]["phases"] = 3;
  write(events);
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl"));
  events[0]["network"] = "r51";
  write(events);
  EXPECT_THAT(refusal(), HasSubstr("metrics.jsonl"));
}

}  // namespace
}  // namespace pfc
