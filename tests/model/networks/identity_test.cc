// Tests the network of jobs that train on embeddings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/networks/statistics_backup.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/counting_ops.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

class Identity : public ::testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = testing::cpu_ops();
  const BackboneOptions options_{.network = "none", .batch = 2, .embedding_size = 3};
  const std::vector<float> rows_{1, -2, 3, 4, 5, -6};
};

TEST_F(Identity, ReturnsTheEmbeddingsThatItHasRead) {
  const auto net = make_backbone(*ops_, options_);
  EXPECT_EQ(batch_of(options_).shape, (Shape{2, 3}));
  EXPECT_EQ(batch_of(options_).dtype, DType::kFloat32);
  net->read(to_device(*ops_, {2, 3}, rows_));
  for (const bool training : {true, false}) {
    EXPECT_EQ(to_host(*ops_, net->forward(net->input(), training, 1)), rows_);
  }
}

TEST_F(Identity, ReportsAllItsGradientsAsReady) {
  const auto net = make_backbone(*ops_, options_);
  std::vector<std::int64_t> told;
  net->backward(to_device(*ops_, {2, 3}, rows_), {}, [&](std::int64_t at) { told.push_back(at); });
  EXPECT_THAT(told, ElementsAre(0));
}

TEST_F(Identity, HasNoParametersAndSavesNone) {
  const auto net = make_backbone(*ops_, options_);
  EXPECT_EQ(net->gradients().elements(), 0);
  EXPECT_EQ(net->weights.flat().elements(), 0);
  EXPECT_TRUE(export_state_dict(*ops_, *net).empty());
  StatisticsBackup statistics(*ops_, *net, true);
  statistics.keep();
  statistics.restore();
}

TEST_F(Identity, NeedsTheMemoryOfItsBatch) {
  testing::CountingOps planned(1), made(1);
  const BackboneMemory memory = backbone_memory(planned, options_);
  make_backbone(made, options_);
  EXPECT_EQ(made.allocated, 2 * 3 * sizeof(float));
  EXPECT_EQ(memory.activations, made.allocated);
  EXPECT_EQ(memory.weights + memory.state + memory.gradients + memory.operands, 0u);
}

}  // namespace
}  // namespace pfc
