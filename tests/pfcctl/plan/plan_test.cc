#include "pfcctl/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pfc {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

PlanReport report() {
  return {.planned = {.job = {.network = "r50", .batch_size = 64, .num_classes = 1'000'000},
                      .world_size = 2},
          .plan = {.parts = {{"class centres", std::uint64_t{3} << 30, "many"},
                             {"activations", std::uint64_t{1} << 29, ""}},
                   .available = std::uint64_t{4} << 30},
          .there = {std::uint64_t{4} << 30, "half of it"},
          .largest = {.num_classes = 2'000'000, .batch_size = 70},
          .advice = "",
          .refusal = "",
          .capacity = {},
          .config = "job.json"};
}

TEST(Plan, PrintsATableWithItsSumAndAVerdict) {
  EXPECT_EQ(plan_text(report()),
            "r50, 1000000 classes, 2 workers x batch 64. A worker needs\n"
            "  class centres                   3.00 GiB   many\n"
            "  activations                      512 MiB\n"
            "  in all                          3.50 GiB\n"
            "  available                       4.00 GiB   half of it\n"
            "largest num_classes that fits, all else equal: 2000000\n"
            "largest batch_size that fits, all else equal: 70\n"
            "it fits; start the job with pfc-coordinator --config job.json\n");
}

TEST(Plan, AdvisesAChangeIfAJobDoesNotFit) {
  PlanReport r = report();
  r.plan.available = 1;
  r.largest.batch_size = 0;
  r.advice = "take two";
  EXPECT_THAT(plan_text(r), EndsWith("it does not fit: take two\n"));
  EXPECT_THAT(plan_text(r), HasSubstr("no batch_size fits, all else equal\n"));
  EXPECT_THAT(plan_text(r), Not(HasSubstr("it fits")));
}

TEST(Plan, ReportsThatAFittingJobWouldBeRefused) {
  PlanReport r = report();
  EXPECT_EQ(nlohmann::json::parse(plan_json(r))["refusal"], "");
  r.refusal = "precision: found fp16";
  EXPECT_THAT(plan_text(r),
              EndsWith("it fits\nbut the job would be refused: precision: found fp16\n"));
  EXPECT_EQ(nlohmann::json::parse(plan_json(r))["refusal"], "precision: found fp16");
}

TEST(Plan, SaysThatItLeavesOutTheTeacher) {
  PlanReport r = report();
  r.without_teacher = true;
  EXPECT_THAT(plan_text(r),
              EndsWith("it fits without the teacher, which is not on this machine\n"));
  EXPECT_EQ(nlohmann::json::parse(plan_json(r))["without_teacher"], true);
}

TEST(Plan, ShowsHostMemoryOfGpuJobs) {
  PlanReport r = report();
  r.planned.gpu = true;
  r.plan.host = std::uint64_t{2} << 30;
  r.workers_of_host = 8;
  EXPECT_THAT(plan_text(r),
              HasSubstr("and 2.00 GiB of host memory, 16.0 GiB for the 8 workers of a host\n"));
  EXPECT_EQ(nlohmann::json::parse(plan_json(r))["host_bytes"], r.plan.host);
}

TEST(Plan, ReportsThatTrainingWaitsForCheckpoints) {
  PlanReport r = report();
  r.plan.checkpoints_in_place = true;
  r.plan.checkpoint_copy = std::uint64_t{3} << 30;
  EXPECT_THAT(plan_text(r), HasSubstr("a copy of 3.00 GiB for checkpoints would not fit"));
}

TEST(Plan, PrintsTheSameAsJson) {
  const auto json = nlohmann::json::parse(plan_json(report()));
  EXPECT_EQ(json["parts"][1]["name"], "activations");
  EXPECT_EQ(json["parts"][1]["bytes"], 1 << 29);
  EXPECT_EQ(json["total_bytes"], (std::uint64_t{3} << 30) + (1 << 29));
  EXPECT_EQ(json["available_bytes"], std::uint64_t{4} << 30);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["largest_num_classes"], 2'000'000);
  EXPECT_EQ(json["largest_batch_size"], 70);
}

}  // namespace
}  // namespace pfc
