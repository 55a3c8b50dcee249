// Tests all networks by name: sizes, training and inference, memory, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "model/networks/arena.h"
#include "tests/model/networks/backbone_testing.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::int64_t elements(const Arena& arena) {
  std::int64_t n = 0;
  for (const Parameter& p : arena.parameters) n += p.count;
  return n;
}

BackboneOptions of(const std::string& network, std::int64_t size = 32, std::int64_t batch = 2) {
  return {.network = network,
          .batch = batch,
          .embedding_size = 32,
          .height = size,
          .width = size,
          .seed = 1};
}

class Networks : public ::testing::Test {
 protected:
  std::vector<float> embeddings(Backbone& net, const BackboneOptions& o, bool training,
                                std::int64_t step = 0) {
    const OwnedTensor x = to_device(*ops_, testing::images_shape(o), testing::random_images(o));
    return to_host(*ops_, net.forward(x, training, step));
  }

  std::unique_ptr<Ops> ops_ = testing::cpu_ops();
};

TEST_F(Networks, ReadPixelsWithTheMeanAndDeviationOfEachColour) {
  BackboneOptions o = of("mbf");
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(testing::images_shape(o).elements()));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const auto read = [&] {
    const auto net = make_backbone(*ops_, o);
    net->read({pixels.data(), DType::kUInt8, testing::images_shape(o)});
    return to_host(*ops_, net->input());
  };
  for (const std::size_t i : {0, 1, 1000}) EXPECT_EQ(read()[i], pixels[i] / 127.5f - 1.f);
  o.pixels = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const std::vector<float> scaled = read();
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double expected = (pixels[i] / 255. - o.pixels.mean[i % 3]) / o.pixels.std[i % 3];
    ASSERT_NEAR(scaled[i], expected, 2e-6) << i;
  }
}

TEST_F(Networks, StartWithTheSameWeightsForEveryMeanAndDeviationOfColours) {
  BackboneOptions o = of("mbf");
  const std::vector<float> before = to_host(*ops_, make_backbone(*ops_, o)->weights.flat());
  o.pixels = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  EXPECT_EQ(to_host(*ops_, make_backbone(*ops_, o)->weights.flat()), before);
}

TEST_F(Networks, HaveArcfaceTorchsNumbersOfWeights) {
  // Numbers counted with PyTorch in arcface_torch's own modules, with 512 features: 24,025,600 for
  // r18, whose features.weight is not trained; 2,059,520 for mbf.
  BackboneOptions o = of("r18", 112, 1);
  o.embedding_size = 512;
  o.training = false;
  EXPECT_EQ(elements(make_backbone(*ops_, o)->weights), 24'025'600 - 512);
  o.network = "mbf";
  EXPECT_EQ(elements(make_backbone(*ops_, o)->weights), 2'059'520);
  o.network = "vit_t";
  EXPECT_EQ(elements(make_backbone(*ops_, o)->weights), 19'137'792);
}

// The numbers in torchvision's documentation include the classifier of 1000 classes.
TEST_F(Networks, HaveTorchvisionsNumbersOfWeights) {
  const std::tuple<const char*, std::int64_t, std::int64_t> kResnets[] = {
      {"resnet18", 512, 11'689'512},
      {"resnet34", 512, 21'797'672},
      {"resnet50", 2048, 25'557'032},
      {"resnet101", 2048, 44'549'160}};
  for (const auto& [network, width, weights] : kResnets) {
    std::int64_t count = 1000 * (width + 1);
    BackboneOptions o = of(network, 224, 1);
    o.embedding_size = width;
    for (const Parameter& p : backbone_parameters(*ops_, o).weights) count += p.count;
    EXPECT_EQ(count, weights) << network;
  }
}

/// Returns the names of the network's weights that are all zero, among the names that end with
/// `end`.
std::set<std::string> zeros_of(Ops& ops, const Backbone& net, const std::string& end) {
  std::set<std::string> zeros;
  for (const Parameter& p : net.weights.parameters) {
    const std::vector<float> values = to_host(ops, parameter_view(p, net.weights.flat()));
    const bool zero = std::ranges::all_of(values, [](float value) { return value == 0; });
    if (zero && p.name.ends_with(end)) zeros.insert(p.name);
  }
  return zeros;
}

TEST_F(Networks, ZeroInitResidualZeroesTheLastBatchNormOfEachBlock) {
  BackboneOptions o = of("resnet18");
  o.embedding_size = 512;
  EXPECT_EQ(zeros_of(*ops_, *make_backbone(*ops_, o), ".weight"), std::set<std::string>{});
  o.zero_init_residual = true;
  std::set<std::string> expected;
  for (const char* const stage : {"layer1", "layer2", "layer3", "layer4"}) {
    expected.insert({std::string(stage) + ".0.bn2.weight", std::string(stage) + ".1.bn2.weight"});
  }
  EXPECT_EQ(zeros_of(*ops_, *make_backbone(*ops_, o), ".weight"), expected);
  o = of("resnet50");
  o.embedding_size = 2048;
  o.zero_init_residual = true;
  EXPECT_EQ(zeros_of(*ops_, *make_backbone(*ops_, o), ".bn3.weight").size(), 16U);
}

TEST_F(Networks, AdafaceReadsBgrAndSavesNoWeightsOfTheLastBatchNorm) {
  BackboneOptions o = of("ir_18", 16);
  o.training = false;
  const auto net = make_backbone(*ops_, o);
  const std::vector<HostTensor> saved = export_state_dict(*ops_, *net);
  const auto tensor = [&](const std::string& name) {
    return std::ranges::find(saved, name, &HostTensor::name);
  };
  EXPECT_EQ(tensor("output_layer.4.weight"), saved.end());
  EXPECT_EQ(tensor("output_layer.4.bias"), saved.end());
  EXPECT_EQ(tensor("body.0.shortcut_layer.0.weight"), saved.end());
  const auto* const bgr =
      reinterpret_cast<const float*>(tensor("input_layer.0.weight")->bytes.data());
  const auto rgb = to_host(*ops_, net->weights.flat());  // begins with the same tensor, OHWI
  for (std::size_t colour = 0; colour < 3; ++colour) EXPECT_EQ(bgr[colour * 9], rgb[2 - colour]);
}

TEST_F(Networks, ReturnTheSameEmbeddingsIfBuiltForTrainingOrInference) {
  for (const char* name : {"r18", "mbf", "mbf_large", "ir_18", "vit_t"}) {
    BackboneOptions o = of(name);
    const auto trained = make_backbone(*ops_, o);
    o.training = false;
    const auto evaluated = make_backbone(*ops_, o);
    EXPECT_EQ(embeddings(*trained, o, false), embeddings(*evaluated, o, false)) << name;
  }
}

TEST_F(Networks, CountTheBatchesThatTheyTrainOn) {
  const BackboneOptions o = of("mbf");
  const auto net = make_backbone(*ops_, o);
  const auto before = to_host(*ops_, net->state.flat());
  embeddings(*net, o, false);
  EXPECT_EQ(net->batches_tracked, 0);
  EXPECT_EQ(to_host(*ops_, net->state.flat()), before);
  embeddings(*net, o, true);
  EXPECT_EQ(net->batches_tracked, 1);
  EXPECT_NE(to_host(*ops_, net->state.flat()), before);
}

TEST_F(Networks, DropOutDifferentElementsInEachStepAndRank) {
  BackboneOptions o = testing::small_options(16);
  o.dropout = 0.5f;
  const auto net = testing::make_small_network(*ops_, o);
  o.rank = 1;
  const auto other_rank = testing::make_small_network(*ops_, o);
  const auto first = embeddings(*net, o, true, 1);
  EXPECT_EQ(embeddings(*net, o, true, 1), first);
  EXPECT_NE(embeddings(*net, o, true, 2), first);
  EXPECT_NE(embeddings(*other_rank, o, true, 1), first);
}

/// Returns "NAME [SIZES]" for each tensor of a network for images of 112 x 112 pixels, without
/// allocating the network.
std::set<std::string> tensors_of(Ops& ops, const std::string& network) {
  std::set<std::string> tensors;
  const BackboneParameters all =
      backbone_parameters(ops, {.network = network, .batch = 1, .embedding_size = 512});
  for (const auto* of : {&all.weights, &all.state}) {
    for (const Parameter& p : *of) tensors.insert(p.name + " " + shape_text(p.torch_shape));
  }
  return tensors;
}

TEST_F(Networks, TfaceHasSqueezeAndExcitationAndReadsRgb) {
  const std::set<std::string> adaface = tensors_of(*ops_, "ir_50"),
                              tface = tensors_of(*ops_, "ir_se_50");
  std::set<std::string> added;
  std::ranges::set_difference(tface, adaface, std::inserter(added, added.end()));
  EXPECT_EQ(tface.size(), adaface.size() + added.size());
  EXPECT_EQ(added.size(), 2U * 24);
  EXPECT_TRUE(added.contains("body.0.res_layer.se_block.fc1.weight [4, 64, 1, 1]"));
  EXPECT_TRUE(added.contains("body.23.res_layer.se_block.fc2.weight [512, 32, 1, 1]"));
  for (const Parameter& p :
       backbone_parameters(*ops_, {.network = "ir_se_101", .batch = 1}).weights) {
    EXPECT_FALSE(p.reads_bgr) << p.name;
  }
}

TEST_F(Networks, VisionTransformersHaveArcfaceTorchsTensors) {
  const std::vector<std::tuple<const char*, std::int64_t, int>> kVits = {
      {"vit_t", 256, 12},
      {"vit_t_dp005_mask0", 256, 12},
      {"vit_s", 512, 12},
      {"vit_s_dp005_mask_0", 512, 12},
      {"vit_b", 512, 24},
      {"vit_b_dp005_mask_005", 512, 24},
      {"vit_l_dp005_mask_005", 768, 24},
      {"vit_h", 1024, 48}};
  for (const auto& [network, width, depth] : kVits) {
    const std::string d = std::to_string(width), wide = std::to_string(4 * width);
    std::set<std::string> expected = {
        "mask_token [1, 1, " + d + "]",
        "pos_embed [1, 144, " + d + "]",
        "patch_embed.proj.weight [" + d + ", 3, 9, 9]",
        "patch_embed.proj.bias [" + d + "]",
        "norm.weight [" + d + "]",
        "norm.bias [" + d + "]",
        "feature.0.weight [" + d + ", " + std::to_string(144 * width) + "]",
        "feature.2.weight [512, " + d + "]"};
    for (const char* const of : {".weight", ".bias", ".running_mean", ".running_var"}) {
      expected.insert(std::string("feature.1") + of + " [" + d + "]");
      expected.insert(std::string("feature.3") + of + " [512]");
    }
    for (int i = 0; i < depth; ++i) {
      const std::string block = "blocks." + std::to_string(i);
      for (const char* const norm : {".norm1", ".norm2"}) {
        expected.insert(block + norm + ".weight [" + d + "]");
        expected.insert(block + norm + ".bias [" + d + "]");
      }
      expected.insert(block + ".attn.qkv.weight [" + std::to_string(3 * width) + ", " + d + "]");
      expected.insert(block + ".attn.proj.weight [" + d + ", " + d + "]");
      expected.insert(block + ".attn.proj.bias [" + d + "]");
      expected.insert(block + ".mlp.fc1.weight [" + wide + ", " + d + "]");
      expected.insert(block + ".mlp.fc1.bias [" + wide + "]");
      expected.insert(block + ".mlp.fc2.weight [" + d + ", " + wide + "]");
      expected.insert(block + ".mlp.fc2.bias [" + d + "]");
    }
    EXPECT_EQ(tensors_of(*ops_, network), expected) << network;
  }
}

// In training, 7 of 9 tokens are kept, and in the last blocks about a tenth of the samples is left
// out.
TEST_F(Networks, VisionTransformersMaskDifferentTokensInEachStepAndRank) {
  BackboneOptions o = of("vit_t_dp005_mask0", 27, 8);
  const auto net = make_backbone(*ops_, o);
  const auto first = embeddings(*net, o, true, 1);
  EXPECT_EQ(embeddings(*net, o, true, 1), first);
  EXPECT_NE(embeddings(*net, o, true, 3), first);
  o.network = "vit_t";
  const auto masked = make_backbone(*ops_, o);
  o.rank = 1;
  const auto other_rank = make_backbone(*ops_, o);
  // Outside training, nothing is left out.
  EXPECT_EQ(embeddings(*masked, o, false, 1), embeddings(*other_rank, o, false, 2));
  const auto of_rank_0 = embeddings(*masked, o, true, 1);
  EXPECT_EQ(embeddings(*masked, o, true, 1), of_rank_0);
  EXPECT_NE(embeddings(*masked, o, true, 2), of_rank_0);
  EXPECT_NE(embeddings(*other_rank, o, true, 1), of_rank_0);
}

TEST_F(Networks, HaveInitialWeightsThatDependOnlyOnTheSeed) {
  BackboneOptions o = of("mbf");
  const auto weights = [&] { return to_host(*ops_, make_backbone(*ops_, o)->weights.flat()); };
  const auto first = weights();
  EXPECT_EQ(weights(), first);
  o.seed = 2;
  EXPECT_NE(weights(), first);
}

TEST_F(Networks, TakeImagesOfOtherSizes) {
  BackboneOptions o = of("r18", 48);
  o.width = 32;
  EXPECT_EQ(embeddings(*make_backbone(*ops_, o), o, true).size(), 64U);
  o = of("mbf", 48);
  EXPECT_EQ(embeddings(*make_backbone(*ops_, o), o, true).size(), 64U);
  o = of("vit_t", 31);
  o.width = 9;
  EXPECT_EQ(embeddings(*make_backbone(*ops_, o), o, true).size(), 64U);
}

TEST_F(Networks, RejectUnknownNamesAndUnsuitableOptions) {
  const auto making = [&](BackboneOptions o) { return [this, o] { make_backbone(*ops_, o); }; };
  EXPECT_THAT(making(of("r51")), ThrowsMessage<InputError>(HasSubstr("r18, r34, r50")));
  EXPECT_THAT(making(of("r18", 100)), ThrowsMessage<InputError>(HasSubstr("100 x 100")));
  BackboneOptions oblong = of("mbf", 48);
  oblong.width = 32;
  EXPECT_THAT(making(oblong), ThrowsMessage<InputError>(HasSubstr("square")));
  BackboneOptions dropping = of("mbf", 48);
  dropping.dropout = 0.5F;
  EXPECT_THAT(making(dropping), ThrowsMessage<InputError>(HasSubstr("mbf has no dropout")));
  dropping.network = "vit_t";
  EXPECT_THAT(making(dropping), ThrowsMessage<InputError>(HasSubstr("vit_t has no dropout")));
  EXPECT_THAT(making(of("vit_t", 8)),
              ThrowsMessage<InputError>(HasSubstr("8 x 8 pixels, expected at least one patch")));
  EXPECT_THAT(making(of("resnet50")),
              ThrowsMessage<InputError>(HasSubstr("network resnet50 have 2048 numbers; set it")));
  EXPECT_THAT(making(of("resnet18", 48)), ThrowsMessage<InputError>(HasSubstr("multiples of 32")));
  BackboneOptions zero = of("r18");
  zero.zero_init_residual = true;
  EXPECT_THAT(making(zero),
              ThrowsMessage<InputError>(HasSubstr("network r18 has no such initial")));
}

}  // namespace
}  // namespace pfc
