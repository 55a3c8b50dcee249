#include "worker/capacity/step_cost.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

/// The forward pass takes one second, the backward pass two, and the head half a second.
StepWork work() {
  return {.forward = {{.flops = 1}},
          .backward = {{.flops = 2}},
          .optimizer = {{.flops = 0.25}},
          .head = {.flops = 0.5}};
}

ClusterModel cluster(bool gpu, int workers = 1, int workers_of_host = 1) {
  return {.machine = {.gpu = gpu, .cores = 4, .roofline = {.per_flop = 1}, .local = {}},
          .workers = workers,
          .workers_of_host = workers_of_host};
}

TEST(StepCost, AddsThePhasesOfAStep) {
  const StepCost cost = predict_step(work(), 8, 1, cluster(true));
  EXPECT_EQ(cost.of("forward"), 1);
  EXPECT_EQ(cost.of("backward"), 2);
  EXPECT_EQ(cost.of("head"), 0.5);
  EXPECT_EQ(cost.of("optimizer"), 0.25);
  EXPECT_EQ(cost.of("all_gather"), 0);
  EXPECT_EQ(cost.of("no phase"), 0);
  EXPECT_EQ(cost.seconds(), 3.75);
}

TEST(StepCost, MultipliesPhasesByTheCorrectionsOfAMeasuredMachine) {
  ClusterModel c = cluster(true);
  c.machine.forward = 3;
  c.machine.backward = 2;
  c.machine.head = 4;
  EXPECT_EQ(predict_step(work(), 8, 1, c).seconds(), 3 + 4 + 2 + 0.25);
}

TEST(StepCost, RepeatsMicroBatchesButNotTheUpdate) {
  StepWork twice = work();
  twice.micro_batches = 2;
  EXPECT_EQ(predict_step(twice, 8, 1, cluster(true)).seconds(), 2 * 3.5 + 0.25);
}

TEST(StepCost, TimesTheTeacherAsAForwardPass) {
  StepWork taught = work();
  taught.teacher = {{.flops = 5}};
  ClusterModel c = cluster(true);
  c.machine.forward = 2;
  const StepCost cost = predict_step(taught, 8, 1, c);
  EXPECT_EQ(cost.of("teacher"), 10);
  EXPECT_EQ(cost.seconds(), 10 + 2 + 2 + 0.5 + 0.25);
  EXPECT_EQ(bottleneck_of(cost).what, "teacher");
  EXPECT_EQ(predict_step(work(), 8, 1, c).phases.size() + 1, cost.phases.size());
}

TEST(StepCost, DividesACpuBetweenTheWorkersOfItsHost) {
  EXPECT_EQ(predict_step(work(), 8, 1, cluster(false, 2, 2)).of("forward"), 2);
  EXPECT_EQ(predict_step(work(), 8, 1, cluster(false, 2, 1)).of("forward"), 1);
  EXPECT_EQ(predict_step(work(), 8, 1, cluster(true, 2, 2)).of("forward"), 1);
}

TEST(StepCost, OverlapsGradientsWithTheBackwardPass) {
  StepWork w = work();
  w.gradients = 1.6;
  ClusterModel c = cluster(true, 2, 2);
  c.machine.local = {.latency = 0, .per_byte = 1};
  // Each worker sends half of the gradients twice, which takes 1.6 s. All buckets but the last of
  // 16 are sent during the backward pass.
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("gradient_wait"), 0.1, 1e-12);
  c.machine.gpu = false;  // on a CPU, the same cores copy the bytes of both workers
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("gradient_wait"), 0.2, 1e-12);
  w.gradients = 16;
  c.machine.gpu = true;
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("gradient_wait"), 16 - 2, 1e-12);
}

TEST(StepCost, WaitsForTheSlowerOfHostAndNetwork) {
  StepWork w = work();
  w.embeddings = 8;
  ClusterModel c = cluster(true, 8, 4);
  c.machine.local = {.latency = 0, .per_byte = 0.01};
  c.network = {.latency = 0.5, .per_byte = 1};
  EXPECT_EQ(c.hosts(), 2);
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("all_gather"), 3 * 0.5 + 7, 1e-12);
  c.network = {.latency = 0, .per_byte = 1e-6};
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("all_gather"), 7 * 0.01, 1e-12);
}

TEST(StepCost, SendsStatisticsInAnAllToAllAndAnAllGather) {
  StepWork w = work();
  w.statistics = 8;
  ClusterModel c = cluster(true, 8, 4);
  c.network = {.latency = 0.5, .per_byte = 1};
  // Each host's four workers send half of their statistics to the other host. The all-gather is a
  // ring, which crosses the network once.
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("head"), 0.5 + (1.5 + 4 * 4) + (1.5 + 7), 1e-12);
  c.machine.gpu = false;  // on CPUs, a mesh with one latency
  EXPECT_NEAR(predict_step(w, 8, 1, c).of("head"), 4 * 0.5 + 2 * (0.5 + 4 * 4), 1e-12);
}

TEST(StepCost, WaitsForDataThatTakeLongerThanTheStep) {
  ClusterModel c = cluster(true);
  c.machine.decode_seconds = 1;
  c.decoding_threads = 2;
  const StepCost cost = predict_step(work(), 10, 112 * 112, c);
  EXPECT_NEAR(cost.of("data_wait"), 10 / 2.0 - 3.75, 1e-12);
  EXPECT_NEAR(cost.seconds(), 5, 1e-12);
  // Images of a quarter of the pixels.
  EXPECT_EQ(predict_step(work(), 10, 56 * 56, c).of("data_wait"), 0);
}

TEST(StepCost, DecodingTakesCoresFromTheComputationOnACpu) {
  ClusterModel c = cluster(false);
  c.machine.decode_seconds = 0.1;
  const StepCost cost = predict_step(work(), 10, 112 * 112, c);
  EXPECT_NEAR(cost.seconds(), 3.75 + 10 * 0.1 / 4, 1e-12);
  EXPECT_EQ(cost.of("data_wait"), 0);
}

/// The measurements are those of docs/benchmarks/h200.md.
TEST(StepCost, IsCloseToMeasurementsOfAnH200) {
  const ClusterModel c{.machine = *gpu_profile("h200", DType::kBFloat16, false)};
  PlannedJob planned{.job = {.network = "r50", .precision = Precision::kBf16, .batch_size = 128},
                     .gpu = true};
  planned.job.num_classes = 1000;
  EXPECT_NEAR(predict_step(count_step(planned), 128, 112L * 112, c).seconds(), 18.0e-3, 1.8e-3);
  planned.job.num_classes = 1'000'000;
  planned.job.batch_size = 1024;
  EXPECT_NEAR(predict_step(count_step(planned), 1024, 112L * 112, c).of("head"), 15.1e-3, 1.5e-3);
}

TEST(Corrections, AdjustAPredictionToTheMeasurement) {
  StepWork w = work();
  w.embeddings = w.d_embeddings = 1;
  w.gradients = 1;
  ClusterModel c = cluster(false, 2, 2);
  c.machine.local = {.latency = 0, .per_byte = 0.1};
  const StepCost said = predict_step(w, 8, 1, c);
  const StepCost was{.phases = {{"forward", 3},
                                {"backward", 2},
                                {"head", 1},
                                {"all_gather", 0.1},
                                {"reduce_scatter", 0.2},
                                {"gradient_wait", 0.3},
                                {"optimizer", 1},
                                {"images", 0}}};
  const StepCost now = predict_step(w, 8, 1, c, corrections(said, was));
  EXPECT_NEAR(now.of("forward"), 3, 1e-12);
  EXPECT_NEAR(now.of("backward"), 2, 1e-12);
  EXPECT_NEAR(now.of("all_gather") + now.of("reduce_scatter") + now.of("gradient_wait"), 0.6,
              1e-12);
  EXPECT_NEAR(now.seconds(), was.seconds(), 1e-12);
}

}  // namespace
}  // namespace pfc
