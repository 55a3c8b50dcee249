// A whole network on a GPU (here an emulated one) against the same on the CPU: forward, backward,
// evaluation, in each precision.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/worker/backbone/backbone_testing.h"
#include "worker/backbone/arena.h"

namespace pfc {
namespace {

struct Precise {
  const char* name;
  DType type;
  double tolerance;
};

class BackboneOnGpu : public ::testing::TestWithParam<Precise> {
 protected:
  struct Pass {
    std::vector<float> embeddings, gradients, state, evaluated;
  };

  static Pass run(Ops& ops, const std::vector<float>& images, float gradient_scale) {
    const BackboneOptions options = testing::small_options(3);
    const auto net = testing::make_small_network(ops, options);
    const testing::OwnedTensor floats(ops, testing::images_shape(options), images);
    const auto memory = ops.allocate(images.size() * size_of(ops.activation_type()));
    const Tensor x(memory->data(), ops.activation_type(), testing::images_shape(options));
    ops.convert(floats.tensor, x);
    const testing::OwnedTensor d(ops, {options.batch, options.embedding_size},
                                 testing::random_values(options.batch * options.embedding_size, 2));
    Pass pass;
    pass.embeddings = testing::host(ops, net->forward(x, true, 5));
    net->backward(d.tensor, {.gradient_scale = gradient_scale}, [](std::int64_t) {});
    pass.gradients = testing::host(ops, net->gradients());
    for (float& g : pass.gradients) g /= gradient_scale;
    pass.state = testing::host(ops, net->state.flat());
    pass.evaluated = testing::host(ops, net->forward(x, false, 5));
    return pass;
  }
};

TEST_P(BackboneOnGpu, AgreesWithTheCpu) {
  if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
  const auto gpu = make_cuda_ops({.activations = GetParam().type});
  const auto cpu = testing::cpu_ops();
  const std::vector<float> images = testing::random_images(testing::small_options(3));
  const Pass expected = run(*cpu, images, 1.f);
  const Pass found = run(*gpu, images, GetParam().type == DType::kFloat16 ? 256.f : 1.f);
  const double tolerance = GetParam().tolerance;
  EXPECT_LT(testing::relative_error(found.embeddings, expected.embeddings), tolerance);
  EXPECT_LT(testing::relative_error(found.gradients, expected.gradients), 4 * tolerance);
  EXPECT_LT(testing::relative_error(found.state, expected.state), tolerance);
  EXPECT_LT(testing::relative_error(found.evaluated, expected.evaluated), tolerance);
}

// Low precision is told from wrong by its size: the rounding of some twenty layers.
INSTANTIATE_TEST_SUITE_P(Precisions, BackboneOnGpu,
                         ::testing::Values(Precise{"Fp32", DType::kFloat32, 1e-5},
                                           Precise{"Bf16", DType::kBFloat16, 4e-2},
                                           Precise{"Fp16", DType::kFloat16, 5e-3}),
                         [](const auto& precise) { return precise.param.name; });

}  // namespace
}  // namespace pfc
