// The networks by name: sizes, modes, memory, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(Networks, HaveArcfaceTorchsNumbersOfWeights) {
  // Counted with PyTorch in arcface_torch's own modules with 512 features: 24,025,600 for r18,
  // whose features.weight is not trained; 2,059,520 for mbf.
  BackboneOptions o = of("r18", 112, 1);
  o.embedding_size = 512;
  o.training = false;
  EXPECT_EQ(elements(make_backbone(*ops_, o)->weights), 24'025'600 - 512);
  o.network = "mbf";
  EXPECT_EQ(elements(make_backbone(*ops_, o)->weights), 2'059'520);
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
  for (const char* name : {"r18", "mbf", "mbf_large", "ir_18"}) {
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

TEST_F(Networks, DropOutOtherElementsInEachStepAndRank) {
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

TEST_F(Networks, DependOnlyOnTheSeed) {
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
}

}  // namespace
}  // namespace pfc
