// Compares networks in bf16 on this CPU with the same in fp32, and tests the copy of the weights
// that they read.
#include <gtest/gtest.h>

#include "common/files/safetensors.h"
#include "kernels/cpu/margin/tile_products.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

std::unique_ptr<Ops> bf16_ops() {
  return make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 2, .precision = Precision::kBf16});
}

struct Bf16Pass {
  std::vector<float> embeddings, gradients, state, evaluated;
  friend bool operator==(const Bf16Pass&, const Bf16Pass&) = default;
};

/// Runs one training pass and one evaluation of a new network.
Bf16Pass run_pass(Ops& ops, Backbone& net, const BackboneOptions& options) {
  const OwnedTensor x = to_device(ops, testing::images_shape(options),
                                  testing::random_images(options), ops.activation_type());
  const OwnedTensor d =
      to_device(ops, {options.batch, options.embedding_size},
                testing::random_values(options.batch * options.embedding_size, 2));
  Bf16Pass pass;
  pass.embeddings = to_host(ops, net.forward(x, true, 5));
  net.backward(d, {}, [](std::int64_t) {});
  pass.gradients = to_host(ops, net.gradients());
  pass.state = to_host(ops, net.state.flat());
  pass.evaluated = to_host(ops, net.forward(x, false, 5));
  return pass;
}

class Bf16OnCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no avx512_bf16";
    ops_ = bf16_ops();
  }

  std::unique_ptr<Ops> ops_;
};

// The size of the error distinguishes rounding from faults: twenty to sixty layers round, and the
// last of them normalises only eight samples. mbf is deep and narrow. If rounding changes the sign
// of a number before a ReLU, its gradient changes by 1.
struct Network {
  const char* name;
  double embeddings, gradients;  // relative errors
  std::int64_t embedding_size = 64;
};

class Bf16Networks : public Bf16OnCpu, public ::testing::WithParamInterface<Network> {
 protected:
  const BackboneOptions options_{.network = GetParam().name,
                                 .batch = 8,
                                 .embedding_size = GetParam().embedding_size,
                                 .height = 32,
                                 .width = 32,
                                 .seed = 3};
};

TEST_P(Bf16Networks, AgreeWithFloat32) {
  const auto fp32 = testing::cpu_ops();
  const Bf16Pass expected = run_pass(*fp32, *make_backbone(*fp32, options_), options_);
  const Bf16Pass found = run_pass(*ops_, *make_backbone(*ops_, options_), options_);
  EXPECT_LT(relative_error(found.embeddings, expected.embeddings), GetParam().embeddings);
  EXPECT_LT(relative_error(found.gradients, expected.gradients), GetParam().gradients);
  EXPECT_LT(relative_error(found.state, expected.state), 1e-2);
  EXPECT_LT(relative_error(found.evaluated, expected.evaluated), GetParam().embeddings);
}

TEST_P(Bf16Networks, GiveTheSameBitsTwice) {
  EXPECT_EQ(run_pass(*ops_, *make_backbone(*ops_, options_), options_),
            run_pass(*ops_, *make_backbone(*ops_, options_), options_));
}

INSTANTIATE_TEST_SUITE_P(Networks, Bf16Networks,
                         ::testing::Values(Network{"r18", 5e-2, 2e-1}, Network{"r50", 5e-2, 2e-1},
                                           Network{"mbf", 1e-1, 5e-1},
                                           Network{"ir_se_50", 5e-2, 2e-1},
                                           Network{"resnet18", 1e-1, 5e-1, 512},
                                           Network{"vit_t", 5e-2, 2e-1}),
                         [](const auto& network) { return std::string(network.param.name); });

class Bf16Operands : public Bf16OnCpu {
 protected:
  std::vector<float> embeddings(Backbone& net) {
    const OwnedTensor x = to_device(*ops_, testing::images_shape(options_),
                                    testing::random_images(options_), ops_->activation_type());
    return to_host(*ops_, net.forward(x, false, 0));
  }
  /// Changes every weight, and leaves operands() as a job's optimizer does.
  void update(Backbone& net) {
    const OwnedTensor x = to_device(*ops_, testing::images_shape(options_),
                                    testing::random_images(options_), ops_->activation_type());
    net.forward(x, true, 0);
    const OwnedTensor d = to_device(*ops_, {options_.batch, options_.embedding_size},
                                    testing::random_values(options_.batch * 8, 2));
    net.backward(d, {}, [](std::int64_t) {});
    const OwnedTensor velocity(*ops_, {net.weights.count});
    ops_->sgd({.lr = 1}, 1.f, net.gradients(), net.weights.flat(), velocity, net.operands());
    net.operands_are_current = true;
  }
  std::unique_ptr<Backbone> network() { return testing::make_small_network(*ops_, options_); }

  const BackboneOptions options_ = testing::small_options();
};

TEST_F(Bf16Operands, HaveTheSameBitsFromTheOptimizerAndTheForwardPass) {
  const auto net = network();
  const auto before = embeddings(*net);
  update(*net);
  const auto after = embeddings(*net);
  EXPECT_NE(after, before);
  net->operands_are_current = false;
  EXPECT_EQ(embeddings(*net), after);
}

TEST_F(Bf16Operands, FollowWeightsLoadedAfterAnUpdate) {
  const TemporaryFolder folder;
  const auto initial = network();
  const auto expected = embeddings(*initial);
  std::vector<SafetensorsEntry> entries;
  const std::vector<HostTensor> tensors = export_state_dict(*ops_, *initial);
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  write_safetensors(folder.path() / "initial.safetensors", entries);

  const auto net = network();
  update(*net);
  import_state_dict(*ops_, *net, SafetensorsFile(folder.path() / "initial.safetensors"));
  EXPECT_EQ(embeddings(*net), expected);
}

}  // namespace
}  // namespace pfc
