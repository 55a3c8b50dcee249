// Compares the results of backbone_memory() with the allocations of make_backbone().
#include <gtest/gtest.h>

#include "kernels/cpu/margin/tile_products.h"
#include "model/networks/backbone.h"
#include "tests/support/counting_ops.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using testing::CountingOps;

std::size_t sum(const BackboneMemory& m) {
  return m.weights + m.operands + m.state + m.gradients + m.activations;
}

void expect_what_is_allocated(const BackboneOptions& options, DType type = DType::kFloat32) {
  CountingOps planned(1, best_vector_kernels(), type), made(1, best_vector_kernels(), type);
  const BackboneMemory memory = backbone_memory(planned, options);
  EXPECT_EQ(planned.allocated, 0u);
  make_backbone(made, options);
  EXPECT_EQ(sum(memory), made.allocated);
  EXPECT_EQ(planned.scratch_bytes(), made.scratch_bytes());
  EXPECT_GT(planned.scratch_bytes(), 0u);
}

TEST(BackboneMemory, EqualsWhatTheBackboneAllocates) {
  for (const char* network : {"mbf", "r18", "ir_18", "resnet18", "vit_t", "vit_t_dp005_mask0"}) {
    for (const bool training : {true, false}) {
      expect_what_is_allocated(
          {.network = network, .batch = 3, .height = 32, .width = 32, .training = training});
    }
  }
}

TEST(BackboneMemory, EqualsWhatABackboneThatScalesColoursAllocates) {
  expect_what_is_allocated({.network = "mbf",
                            .batch = 3,
                            .height = 32,
                            .width = 32,
                            .pixels = {.std = {0.25, 0.25, 0.25}}});
}

TEST(BackboneMemory, EqualsWhatAPartlyFrozenBackboneAllocates) {
  for (const char* pattern : {"conv1*", "layer3.*", "*"}) {
    expect_what_is_allocated(
        {.network = "r18", .batch = 3, .height = 32, .width = 32, .freeze = {pattern}});
  }
}

TEST(BackboneMemory, EqualsWhatAPartlyFrozenImageClassifierAllocates) {
  for (const char* pattern : {"conv1*", "layer1.0.*", "layer3.*", "*bn*", "*"}) {
    expect_what_is_allocated(
        {.network = "resnet18", .batch = 3, .height = 32, .width = 32, .freeze = {pattern}});
  }
}

TEST(BackboneMemory, EqualsWhatAPartlyFrozenVisionTransformerAllocates) {
  for (const char* pattern : {"patch_embed*", "blocks.0.*", "blocks.3.attn*", "*norm*", "*"}) {
    expect_what_is_allocated(
        {.network = "vit_t", .batch = 3, .height = 32, .width = 32, .freeze = {pattern}});
  }
}

TEST(BackboneMemory, EqualsWhatABackboneThatRecomputesAllocates) {
  for (const char* network : {"mbf", "r18", "vit_t"}) {
    expect_what_is_allocated(
        {.network = network, .batch = 3, .height = 32, .width = 32, .recompute = {"*"}});
  }
}

TEST(BackboneMemory, EqualsEvaluationMemoryForAFrozenBackbone) {
  const BackboneOptions frozen{
      .network = "r18", .batch = 3, .height = 32, .width = 32, .freeze = {"*"}};
  BackboneOptions evaluation = frozen;
  evaluation.training = false;
  CountingOps ops(1);
  EXPECT_EQ(backbone_memory(ops, frozen).gradients, 0u);
  EXPECT_EQ(backbone_memory(ops, frozen).activations, backbone_memory(ops, evaluation).activations);
}

TEST(BackboneMemory, EqualsWhatTheBackboneAllocatesInBf16) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no avx512_bf16";
  for (const char* network : {"mbf", "r18", "ir_18", "resnet18", "vit_t", "vit_t_dp005_mask0"}) {
    for (const bool training : {true, false}) {
      expect_what_is_allocated(
          {.network = network, .batch = 3, .height = 32, .width = 32, .training = training},
          DType::kBFloat16);
    }
  }
}

TEST(BackboneMemory, EvaluationNeedsLessThanAThirdOfTraining) {
  for (const char* network : {"mbf", "r18", "vit_t"}) {
    BackboneOptions options{.network = network, .batch = 3, .height = 32, .width = 32};
    CountingOps ops(1);
    const std::size_t training = backbone_memory(ops, options).activations;
    options.training = false;
    EXPECT_LT(backbone_memory(ops, options).activations, training / 3) << network;
  }
}

TEST(BackboneMemory, CountsTheStatisticsOfAllWorkers) {
  const BackboneOptions alone{.network = "mbf", .batch = 2, .height = 32, .width = 32};
  testing::run_ranks(2, [&](Comm& comm) {
    BackboneOptions together = alone;
    together.sync_bn = &comm;
    if (comm.rank() != 0) return;
    expect_what_is_allocated(together);
  });
}

TEST(BackboneMemory, CountsTheMemoryOfABatchThatFitsNoMachine) {
  CountingOps ops(1);
  const BackboneMemory huge = backbone_memory(ops, {.network = "r18", .batch = 1 << 20});
  const BackboneMemory small = backbone_memory(ops, {.network = "r18", .batch = 1 << 10});
  EXPECT_GT(huge.activations, std::size_t{30} << 40);
  EXPECT_NEAR(static_cast<double>(huge.activations) / static_cast<double>(small.activations), 1024,
              1);
  EXPECT_EQ(ops.allocated, 0u);
}

TEST(BackboneMemory, RejectsAnUnknownNetwork) {
  CountingOps ops(1);
  EXPECT_THROW(backbone_memory(ops, {.network = "r19"}), InputError);
}

TEST(BackboneMemory, RejectsAPatternThatMatchesNoWeight) {
  CountingOps ops(1);
  try {
    backbone_memory(ops, {.network = "r18", .freeze = {"fc.*", "layr2.*"}});
    FAIL() << "no error was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "freeze: \"layr2.*\" matches no tensor, did you mean \"layer2\"?; names begin "
                 "with bn1, bn2, conv1, fc, features, layer1, layer2, layer3, layer4, prelu");
  }
}

}  // namespace
}  // namespace pfc
