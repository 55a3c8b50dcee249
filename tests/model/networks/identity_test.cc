// Tests the networks of jobs that train on embeddings or features.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/margin/tile_products.h"
#include "model/networks/statistics_backup.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/counting_ops.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

class IdentityNetwork : public ::testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = testing::cpu_ops();
  const BackboneOptions options_{.network = "none", .batch = 2, .embedding_size = 3};
  const std::vector<float> rows_{1, -2, 3, 4, 5, -6};
};

TEST_F(IdentityNetwork, ReturnsTheEmbeddingsThatItHasRead) {
  const auto net = make_backbone(*ops_, options_);
  EXPECT_EQ(batch_of(options_).shape, (Shape{2, 3}));
  EXPECT_EQ(batch_of(options_).dtype, DType::kFloat32);
  net->read(to_device(*ops_, {2, 3}, rows_));
  for (const bool training : {true, false}) {
    EXPECT_EQ(to_host(*ops_, net->forward(net->input(), training, 1)), rows_);
  }
}

TEST_F(IdentityNetwork, ReportsAllItsGradientsAsReady) {
  const auto net = make_backbone(*ops_, options_);
  std::vector<std::int64_t> told;
  net->backward(to_device(*ops_, {2, 3}, rows_), {}, [&](std::int64_t at) { told.push_back(at); });
  EXPECT_THAT(told, ElementsAre(0));
}

TEST_F(IdentityNetwork, HasNoParametersAndSavesNone) {
  const auto net = make_backbone(*ops_, options_);
  EXPECT_EQ(net->gradients().elements(), 0);
  EXPECT_EQ(net->weights.flat().elements(), 0);
  EXPECT_TRUE(export_state_dict(*ops_, *net).empty());
  StatisticsBackup statistics(*ops_, *net, true);
  statistics.keep();
  statistics.restore();
}

TEST_F(IdentityNetwork, NeedsTheMemoryOfItsBatch) {
  testing::CountingOps planned(1), made(1);
  const BackboneMemory memory = backbone_memory(planned, options_);
  make_backbone(made, options_);
  EXPECT_EQ(made.allocated, 2 * 3 * sizeof(float));
  EXPECT_EQ(memory.activations, made.allocated);
  EXPECT_EQ(memory.weights + memory.state + memory.gradients + memory.operands, 0u);
}

TEST(LinearFeatures, ComputesEmbeddingsAndTheGradientsOfItsWeights) {
  const auto ops = testing::cpu_ops();
  const BackboneOptions o{
      .network = "none", .batch = 2, .embedding_size = 2, .feature_size = 3, .seed = 1};
  EXPECT_EQ(batch_of(o).shape, (Shape{2, 3}));
  EXPECT_EQ(batch_of(o).dtype, DType::kFloat32);
  const auto net = make_backbone(*ops, o);
  const std::vector<HostTensor> tensors = export_state_dict(*ops, *net);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "linear.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors[1].name, "linear.bias");
  const auto* const w = reinterpret_cast<const float*>(tensors[0].bytes.data());
  const auto* const b = reinterpret_cast<const float*>(tensors[1].bytes.data());

  const std::vector<float> rows{1, -2, 3, 4, 5, -6};
  net->read(to_device(*ops, {2, 3}, rows));
  const auto embeddings = to_host(*ops, net->forward(net->input(), true, 1));
  std::vector<float> expected;
  for (int row = 0; row < 2; ++row) {
    for (int i = 0; i < 2; ++i) {
      float sum = b[i];
      for (int k = 0; k < 3; ++k) sum += rows[static_cast<std::size_t>(3 * row + k)] * w[3 * i + k];
      expected.push_back(sum);
    }
  }
  EXPECT_LT(relative_error(embeddings, expected), 1e-6);
  net->backward(to_device(*ops, {2, 2}, std::vector<float>{1, 0, 0, 2}), {}, [](std::int64_t) {});
  const auto gradients = export_flat(*ops, net->weights, net->gradients(), "");
  const auto* const dw = reinterpret_cast<const float*>(gradients[0].bytes.data());
  EXPECT_THAT(std::vector<float>(dw, dw + 6), ElementsAre(1, -2, 3, 8, 10, -12));
}

TEST(LinearFeatures, NeedTheMemoryThatIsPlanned) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    if (type == DType::kBFloat16 && !cpu_has_bfloat16()) continue;
    const BackboneOptions o{.network = "none", .batch = 7, .embedding_size = 8, .feature_size = 33};
    testing::CountingOps planned(1, best_vector_kernels(), type),
        made(1, best_vector_kernels(), type);
    const BackboneMemory m = backbone_memory(planned, o);
    make_backbone(made, o);
    EXPECT_EQ(m.weights + m.operands + m.state + m.gradients + m.activations, made.allocated);
  }
}

}  // namespace
}  // namespace pfc
