#include "pfcctl/plan/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST(PlannedNetwork, ParsesASpeedInBitsAndAnOptionalLatency) {
  EXPECT_DOUBLE_EQ(parse_network("400Gb").per_byte, 8 / (400e9 * 0.9));
  EXPECT_DOUBLE_EQ(parse_network("800Mbit/s").per_byte, 8 / (800e6 * 0.9));
  EXPECT_DOUBLE_EQ(parse_network("2.5 Gbps").per_byte, 8 / (2.5e9 * 0.9));
  EXPECT_DOUBLE_EQ(parse_network("25Gb").latency, 10e-6);
  EXPECT_DOUBLE_EQ(parse_network("25Gb:30us").latency, 30e-6);
  EXPECT_DOUBLE_EQ(parse_network("25Gb:1.5ms").latency, 1.5e-3);
}

TEST(PlannedNetwork, RejectsInvalidTextAndShowsTheFormat) {
  for (const std::string& wrong :
       {std::string("fast"), std::string("400"), std::string("400GB"), std::string("0Gb"),
        std::string("-1Gb"), std::string("25Gb:30"), std::string(100'000, '1') + "Gb"}) {
    EXPECT_THAT(message_of<InputError>([&] { parse_network(wrong); }), HasSubstr("such as 400Gb"));
  }
}

PlannedJob job_to_plan(int workers) {
  return {.job = {.network = "mbf",
                  .precision = Precision::kFp16,
                  .batch_size = 8,
                  .num_epoch = 2,
                  .num_classes = 1'000'000},
          .world_size = workers,
          .data = {.images = 100'000},
          .gpu = true};
}

Capacity plan(const CapacityFlags& flags, int workers, int of_host) {
  const PlannedJob planned = job_to_plan(workers);
  return plan_capacity(flags, planned, of_host, plan_memory(planned, plan_backbone(planned), 1),
                       *machine_of(flags, planned));
}

TEST(CapacityPlan, PlansForGpusOfAnotherMachine) {
  const Capacity c = plan({.machine = "v100", .network = "100Gb"}, 16, 8);
  EXPECT_EQ(c.samples, 128);
  EXPECT_EQ(c.steps, 2 * 100'000 / 128);
  EXPECT_NEAR(c.epochs, 2, 0.01);
  // A million rows of centres and momentum, plus a small backbone.
  EXPECT_NEAR(static_cast<double>(c.checkpoint), 1e6 * 512 * 4 * 2, 0.1e9);
  EXPECT_THAT(capacity_text(c),
              AllOf(HasSubstr("A step on 16 x v100 on 2 hosts, network 100Gb (its data sheet"),
                    HasSubstr("nothing measured"), HasSubstr("  forward "),
                    HasSubstr("1562 steps (2 epochs) in "), HasSubstr("a checkpoint: 3.8")));
  const nlohmann::ordered_json json = capacity_json(c);
  EXPECT_EQ(json["steps"], 1562);
  EXPECT_DOUBLE_EQ(json["step_seconds"], c.step.seconds());
  EXPECT_DOUBLE_EQ(json["phases"]["head"], c.step.of("head"));
}

TEST(CapacityPlan, ShowsDecodingCoresDiskSpaceAndBottleneck) {
  PlannedJob planned = job_to_plan(8);
  planned.job.save_every_steps = 100;
  planned.job.keep_checkpoints = 3;
  planned.job.num_workers = 1;
  const MemoryPlan memory = plan_memory(planned, plan_backbone(planned), 1);
  MachineProfile machine = *gpu_profile("h200", DType::kBFloat16, false);
  machine.decode_seconds = 400e-6;
  const auto capacity = [&] {
    return plan_capacity({.machine = "h200"}, planned, 8, memory, machine);
  };
  Capacity c = capacity();
  EXPECT_EQ(c.kept, 4 * c.checkpoint) << "three checkpoints, and one in progress";
  // Each of eight workers needs 8 images per step time without waits.
  const double step = c.step.seconds() - c.step.of("data_wait");
  EXPECT_NEAR(c.decoding_cores(), 8 * 8 * 400e-6 / step, 0.01 * c.decoding_cores());
  EXPECT_THAT(capacity_text(c),
              AllOf(HasSubstr(fmt::format("inputs: {:.1f} cores of each host", c.decoding_cores())),
                    HasSubstr("room in output for all that are kept: 15")));
  machine.decode_seconds = 100e-3;
  c = capacity();
  const auto threads = static_cast<std::int64_t>(std::ceil(c.decoding_cores() / 8));
  EXPECT_THAT(capacity_text(c), AllOf(HasSubstr("bottleneck: decoding, "),
                                      HasSubstr(fmt::format("num_workers {} would", threads))));
  planned.job.num_workers = threads;
  EXPECT_EQ(bottleneck_of(capacity().step).what, "backbone");
}

/// Measuring the machine takes seconds.
TEST(CapacityPlan, ReadsTheMeasuredRunBeforeItMeasuresTheMachine) {
  PlannedJob planned = job_to_plan(1);
  planned.job.device = DeviceChoice::kCpu;
  EXPECT_THAT(message_of<InputError>(
                  [&] { machine_of({.machine = "this", .measured = "/nowhere"}, planned); }),
              HasSubstr("/nowhere/metrics.jsonl: cannot open"));
}

TEST(CapacityPlan, OmitsTheNetworkOfASingleHost) {
  EXPECT_THAT(capacity_text(plan({.machine = "v100"}, 8, 8)), Not(HasSubstr("network")));
}

/// A profile that was written by hand.
TEST(CapacityPlan, RejectsAMachineWithAStepTimeOfZero) {
  const PlannedJob planned = job_to_plan(1);
  MachineProfile machine{.name = "quick", .source = "a\x1b[2Jhand", .gpu = true, .cores = 1};
  const auto capacity = [&] {
    return plan_capacity({.machine = "quick.json"}, planned, 1,
                         plan_memory(planned, plan_backbone(planned), 1), machine);
  };
  EXPECT_THAT(message_of<InputError>(capacity), HasSubstr("quick.json: the time of a step is 0"));
  machine.step_seconds = 1e-3;
  EXPECT_THAT(capacity_text(capacity()), HasSubstr("(a [2Jhand)"));
}

TEST(CapacityPlan, NamesMissingOptions) {
  EXPECT_THAT(message_of<InputError>([] { plan({.machine = "v100"}, 16, 8); }),
              AllOf(HasSubstr("16 workers, 8 per host"), HasSubstr("--network")));
  EXPECT_THAT(message_of<InputError>([] { plan({.machine = "h100", .save = "x"}, 1, 1); }),
              HasSubstr("--gpu this"));
  EXPECT_THAT(message_of<InputError>([] { plan({.machine = "no-such-file"}, 1, 1); }),
              HasSubstr("no-such-file"));
  PlannedJob bf16 = job_to_plan(1);
  bf16.job.precision = Precision::kBf16;
  EXPECT_THAT(message_of<InputError>([&] { machine_of({.machine = "v100"}, bf16); }),
              HasSubstr("it has no bf16"));
  EXPECT_FALSE(machine_of({}, bf16));
}

}  // namespace
}  // namespace pfc
