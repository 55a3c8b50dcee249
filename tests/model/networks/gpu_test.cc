// Compares a whole network on a GPU (in this program an emulated one) with the same network on the
// CPU: forward, backward and evaluation, in each precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/cuda_device.h"
#include "model/networks/arena.h"
#include "tests/model/networks/backbone_testing.h"
#include "tests/support/test_devices.h"

namespace pfc {
namespace {

struct Precise {
  const char* name;
  DType type;
  double tolerance;
};

struct GpuPass {
  std::vector<float> embeddings, gradients, state, evaluated;
};

constexpr float kInitialSlope = 0.25f;

/// Sets the slopes of PReLUs. They are the only parameters whose initial value is kInitialSlope.
void set_slopes(Ops& ops, Backbone& net, float slope) {
  std::vector<float> values = to_host(ops, net.weights.flat());
  std::ranges::replace(values, kInitialSlope, slope);
  ops.copy_to_device(net.weights.flat(), values.data());
}

/// Runs one training pass and one evaluation of a new network.
GpuPass run_scaled_pass(Ops& ops, Backbone& net, const BackboneOptions& options,
                        float gradient_scale) {
  const OwnedTensor x = to_device(ops, testing::images_shape(options),
                                  testing::random_images(options), ops.activation_type());
  const OwnedTensor d =
      to_device(ops, {options.batch, options.embedding_size},
                testing::random_values(options.batch * options.embedding_size, 2));
  GpuPass pass;
  pass.embeddings = to_host(ops, net.forward(x, true, 5));
  net.backward(d, {.gradient_scale = gradient_scale}, [](std::int64_t) {});
  pass.gradients = to_host(ops, net.gradients());
  for (float& g : pass.gradients) g /= gradient_scale;
  pass.state = to_host(ops, net.state.flat());
  pass.evaluated = to_host(ops, net.forward(x, false, 5));
  return pass;
}

/// Returns the relative error that sign changes before PReLUs add to the gradients. An error of e
/// can change the sign of normally distributed numbers x with |x| < e, which is a fraction of 0.8
/// e. The gradient of each such number changes by 1 - slope. So one layer adds (1 - slope)
/// sqrt(0.8 e). r50 and mbf have at most 50 such layers; if these are independent, they add
/// sqrt(50) times that. The emulated GPU rounds nearly like a CPU, so hardly any sign changes.
double error_of_turned_signs(double e, float slope) {
  return on_emulated_gpu() ? 0 : (1 - slope) * std::sqrt(0.8 * e * 50);
}

void expect_close(const GpuPass& found, const GpuPass& expected, double tolerance,
                  float slope = kInitialSlope) {
  const double error = relative_error(found.embeddings, expected.embeddings);
  EXPECT_LT(error, tolerance);
  EXPECT_LT(relative_error(found.gradients, expected.gradients),
            4 * tolerance + error_of_turned_signs(error, slope));
  EXPECT_LT(relative_error(found.state, expected.state), tolerance);
  EXPECT_LT(relative_error(found.evaluated, expected.evaluated), tolerance);
}

class BackboneOnGpu : public ::testing::TestWithParam<Precise> {
 protected:
  void SetUp() override {
    if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
  }
};

TEST_P(BackboneOnGpu, AgreesWithTheCpu) {
  const auto gpu = make_cuda_ops({.activations = GetParam().type, .cache = algorithms_of_tests()});
  const auto cpu = testing::cpu_ops();
  const BackboneOptions options = testing::small_options(3);
  const GpuPass expected =
      run_scaled_pass(*cpu, *testing::make_small_network(*cpu, options), options, 1.f);
  const GpuPass found = run_scaled_pass(*gpu, *testing::make_small_network(*gpu, options), options,
                                        GetParam().type == DType::kFloat16 ? 256.f : 1.f);
  expect_close(found, expected, GetParam().tolerance);
}

TEST_P(BackboneOnGpu, AgreesWithTheCpuIfPartsAreFrozen) {
  const auto gpu = make_cuda_ops({.activations = GetParam().type, .cache = algorithms_of_tests()});
  const auto cpu = testing::cpu_ops();
  BackboneOptions options = testing::small_options(3);
  options.freeze = {"stem*", "a.bn1.*", "a.down.*", "b.*"};
  const GpuPass expected =
      run_scaled_pass(*cpu, *testing::make_small_network(*cpu, options), options, 1.f);
  const GpuPass found = run_scaled_pass(*gpu, *testing::make_small_network(*gpu, options), options,
                                        GetParam().type == DType::kFloat16 ? 256.f : 1.f);
  expect_close(found, expected, GetParam().tolerance);
}

TEST_P(BackboneOnGpu, AgreesWithTheCpuForAnImageClassifier) {
  const auto gpu = make_cuda_ops({.activations = GetParam().type, .cache = algorithms_of_tests()});
  const auto cpu = testing::cpu_ops();
  BackboneOptions options = testing::small_options(3);
  options.embedding_size = 16;
  const GpuPass expected =
      run_scaled_pass(*cpu, *testing::make_small_classifier(*cpu, options), options, 1.f);
  const GpuPass found = run_scaled_pass(*gpu, *testing::make_small_classifier(*gpu, options),
                                        options, GetParam().type == DType::kFloat16 ? 256.f : 1.f);
  const double tolerance = GetParam().tolerance;
  const double error = relative_error(found.embeddings, expected.embeddings);
  EXPECT_LT(error, tolerance);
  EXPECT_LT(relative_error(found.evaluated, expected.evaluated), tolerance);
  // Four layers have ReLUs. If rounding changes the sign of a number before a ReLU, its gradient
  // changes by 1.
  EXPECT_LT(relative_error(found.gradients, expected.gradients),
            4 * tolerance + std::sqrt(0.8 * error * 4));
}

class NetworkOnGpu : public ::testing::TestWithParam<const char*> {};

// Runs in fp32, where rounding cannot hide an error. Slopes are near 1: in a network this deep,
// rounding decides the sign of some number before a PReLU, and with a slope of 0.25 this would
// change the gradients by more than the tolerance.
TEST_P(NetworkOnGpu, AgreesWithTheCpu) {
  if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
  constexpr float kSlope = 0.99f;
  const BackboneOptions options{.network = GetParam(),
                                .batch = 8,
                                .embedding_size = 64,
                                .height = 32,
                                .width = 32,
                                .seed = 3};
  const auto gpu = make_cuda_ops({.cache = algorithms_of_tests()});
  const auto cpu = testing::cpu_ops();
  const auto run = [&](Ops& ops) {
    const auto net = make_backbone(ops, options);
    set_slopes(ops, *net, kSlope);
    return run_scaled_pass(ops, *net, options, 1.f);
  };
  const GpuPass expected = run(*cpu);
  expect_close(run(*gpu), expected, 3e-5, kSlope);
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkOnGpu, ::testing::Values("r18", "r50", "mbf", "vit_t"),
                         [](const auto& network) { return std::string(network.param); });

// The size of the error distinguishes rounding from faults: some twenty layers round.
INSTANTIATE_TEST_SUITE_P(Precisions, BackboneOnGpu,
                         ::testing::Values(Precise{"Fp32", DType::kFloat32, 1e-5},
                                           Precise{"Bf16", DType::kBFloat16, 4e-2},
                                           Precise{"Fp16", DType::kFloat16, 5e-3}),
                         [](const auto& precise) { return precise.param.name; });

}  // namespace
}  // namespace pfc
