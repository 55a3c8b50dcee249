// Compares training with recomputed activations with training that keeps them: all bits must be
// equal.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/counting_ops.h"
#include "tests/support/test_devices.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using testing::CountingOps;

struct Trained {
  std::vector<float> embeddings, weights, state, evaluated;
  friend bool operator==(const Trained&, const Trained&) = default;
};

std::unique_ptr<Backbone> make_network(Ops& ops, const BackboneOptions& options) {
  if (options.network == "small") return testing::make_small_network(ops, options);
  if (options.network == "small_classifier") return testing::make_small_classifier(ops, options);
  return make_backbone(ops, options);
}

/// Trains two steps of two micro-batches, and evaluates between them.
Trained train(Ops& ops, const BackboneOptions& options) {
  const auto net = make_network(ops, options);
  const OwnedTensor d =
      to_device(ops, {options.batch, options.embedding_size},
                testing::random_values(options.batch * options.embedding_size, 2, 0.1f));
  Trained result;
  const auto images = [&](unsigned seed) {
    return to_device(ops, testing::images_shape(options), testing::random_images(options, seed),
                     ops.activation_type());
  };
  for (unsigned step = 0; step < 2; ++step) {
    for (unsigned micro = 0; micro < 2; ++micro) {
      const unsigned number = 2 * step + micro;
      const auto embeddings = to_host(ops, net->forward(images(number), true, number));
      result.embeddings.insert(result.embeddings.end(), embeddings.begin(), embeddings.end());
      net->backward(d, {.accumulate = micro > 0}, [](std::int64_t) {});
    }
    std::vector<float> weights = to_host(ops, net->weights.flat());
    const std::vector<float> gradients = to_host(ops, net->gradients());
    const std::size_t first = weights.size() - gradients.size();
    for (std::size_t i = 0; i < gradients.size(); ++i) weights[first + i] -= 0.01f * gradients[i];
    ops.copy_to_device(net->weights.flat(), weights.data());
    net->operands_are_current = false;
    const auto evaluated = to_host(ops, net->forward(images(99), false, 0));
    result.evaluated.insert(result.evaluated.end(), evaluated.begin(), evaluated.end());
  }
  result.weights = to_host(ops, net->weights.flat());
  result.state = to_host(ops, net->state.flat());
  return result;
}

BackboneOptions options_of(const std::string& network) {
  BackboneOptions options = testing::small_options(3);
  options.network = network;
  options.dropout = network == "small" ? 0.3f : 0.f;
  if (network == "small_classifier") options.embedding_size = 16;
  if (!network.starts_with("small")) options.height = options.width = 32;
  return options;
}

BackboneOptions recomputed(BackboneOptions options, std::vector<std::string> blocks = {"*"}) {
  options.recompute = std::move(blocks);
  return options;
}

void expect_same_bits(Ops& ops, const BackboneOptions& options,
                      const std::vector<std::string>& blocks = {"*"}) {
  const Trained expected = train(ops, options), found = train(ops, recomputed(options, blocks));
  EXPECT_EQ(found.embeddings, expected.embeddings);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.state, expected.state);
  EXPECT_EQ(found.evaluated, expected.evaluated);
}

class Recompute : public ::testing::TestWithParam<const char*> {};

TEST_P(Recompute, ChangesNoBit) {
  CountingOps ops(1);
  expect_same_bits(ops, options_of(GetParam()));
}

TEST_P(Recompute, ChangesNoBitInBf16) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no avx512_bf16";
  CountingOps ops(1, best_vector_kernels(), DType::kBFloat16);
  expect_same_bits(ops, options_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Networks, Recompute,
                         ::testing::Values("small", "small_classifier", "r18", "mbf", "vit_t",
                                           "ir_se_50"),
                         [](const auto& network) { return std::string(network.param); });

TEST(Recompute, ChangesNoBitIfOnlySomeBlocksAreRecomputed) {
  CountingOps ops(1);
  expect_same_bits(ops, options_of("small"), {"b"});
  expect_same_bits(ops, options_of("small"), {"a", "c"});
  expect_same_bits(ops, options_of("vit_t"), {"blocks.1*", "blocks.3"});
}

TEST(Recompute, ChangesNoBitIfPartsAreFrozen) {
  CountingOps ops(1);
  BackboneOptions options = options_of("small");
  for (const char* pattern : {"stem*", "a.bn1.*", "b.*"}) {
    options.freeze.emplace_back(pattern);
    expect_same_bits(ops, options);
  }
}

TEST(Recompute, GivesTheSameBitsAndNoMoreCollectivesWithSyncBn) {
  const auto train_ranks = [](const std::vector<std::string>& blocks) {
    std::vector<Trained> ranks(2);
    std::vector<std::uint64_t> calls(2);
    testing::run_ranks(2, [&](Comm& comm) {
      CountingOps ops(1);
      BackboneOptions options = recomputed(options_of("small"), blocks);
      options.sync_bn = &comm;
      options.rank = comm.rank();
      const auto rank = static_cast<std::size_t>(comm.rank());
      ranks[rank] = train(ops, options);
      calls[rank] = comm.counters().calls;
    });
    return std::pair(ranks, calls);
  };
  EXPECT_EQ(train_ranks({"*"}), train_ranks({}));
}

TEST(Recompute, NeedsAtMostHalfOfTheActivationMemory) {
  for (const char* network : {"r100", "vit_b"}) {
    CountingOps ops(1);
    const BackboneOptions kept{.network = network, .batch = 64};
    const std::size_t most = backbone_memory(ops, kept).activations;
    EXPECT_LT(backbone_memory(ops, recomputed(kept)).activations, most / 2) << network;
  }
}

TEST(Recompute, NeedsLessMemoryForEveryBlock) {
  CountingOps ops(1);
  BackboneOptions options{.network = "r50", .batch = 8};
  std::size_t before = backbone_memory(ops, options).activations;
  for (const char* stage : {"layer1", "layer2.*", "layer3"}) {
    options.recompute.emplace_back(stage);
    const std::size_t after = backbone_memory(ops, options).activations;
    EXPECT_LT(after, before) << stage;
    before = after;
  }
}

TEST(Recompute, TakesTheNameOfAStageForItsBlocks) {
  CountingOps ops(1);
  const auto bytes = [&](const char* blocks) {
    return backbone_memory(ops, recomputed({.network = "r18", .batch = 8}, {blocks})).activations;
  };
  EXPECT_EQ(bytes("layer1"), bytes("layer1.*"));
  EXPECT_LT(bytes("layer1"), bytes("layer1.0"));
}

TEST(Recompute, NeedsLessMemoryInEveryNetwork) {
  CountingOps ops(1);
  for (const std::string& network : network_names()) {
    BackboneOptions kept{.network = network, .batch = 2};
    if (network.starts_with("resnet")) kept.height = kept.width = 224;
    if (!has_sizes(kept)) kept.embedding_size = 2048;
    EXPECT_LT(backbone_memory(ops, recomputed(kept)).activations,
              backbone_memory(ops, kept).activations)
        << network;
  }
}

TEST(Recompute, RejectsAPatternThatMatchesNoBlock) {
  CountingOps ops(1);
  try {
    backbone_memory(ops, recomputed({.network = "r18"}, {"layer1.*", "layer5.*"}));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "recompute: \"layer5.*\" matches no block, did you mean \"layer1\"?; names begin "
                 "with layer1, layer2, layer3, layer4");
  }
}

class RecomputeOnGpu : public ::testing::TestWithParam<DType> {};

TEST_P(RecomputeOnGpu, ChangesNoBit) {
  if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
  const auto ops = make_cuda_ops({.activations = GetParam(), .cache = algorithms_of_tests()});
  expect_same_bits(*ops, options_of("small"));
  expect_same_bits(*ops, options_of("small_classifier"));
  // An emulated GPU takes long for this network, so it runs in one type.
  if (GetParam() == DType::kBFloat16) expect_same_bits(*ops, options_of("vit_t"));
}

INSTANTIATE_TEST_SUITE_P(Types, RecomputeOnGpu,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace pfc
