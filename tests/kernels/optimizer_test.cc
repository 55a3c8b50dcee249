// Compares several optimizer steps with torch.optim's definitions in float64.

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class Updates : public OnEachDevice {};

TEST_P(Updates, SgdAgreesWithTorch) {
  for (const std::int64_t n : {1, 33, 20011}) {
    const std::vector<float> initial = random(n);
    const OwnedTensor w = tensor({n}, initial), v = tensor({n});
    std::vector<double> expected(initial.begin(), initial.end()), momentum(initial.size());
    for (int step = 0; step < 4; ++step) {
      const std::vector<float> g = random(n);
      const double lr = 0.1 / (step + 1);
      ops_->sgd({.lr = static_cast<float>(lr), .momentum = 0.9f, .weight_decay = 5e-4f}, 0.5f,
                tensor({n}, g), w, v);
      for (std::size_t i = 0; i < g.size(); ++i) {
        momentum[i] = 0.9 * momentum[i] + (0.5 * static_cast<double>(g[i]) + 5e-4 * expected[i]);
        expected[i] -= lr * momentum[i];
      }
    }
    EXPECT_LT(relative_error(values(w), expected), 1e-6);
    EXPECT_LT(relative_error(values(v), momentum), 1e-6);
  }
}

TEST_P(Updates, AdamWAgreesWithTorch) {
  for (const std::int64_t n : {1, 33, 20011}) {
    const std::vector<float> initial = random(n);
    const OwnedTensor w = tensor({n}, initial), m = tensor({n}), v = tensor({n});
    std::vector<double> expected(initial.begin(), initial.end()), m1(initial.size()),
        m2(initial.size());
    for (int step = 1; step <= 4; ++step) {
      const std::vector<float> g = random(n);
      const double c1 = 1 - std::pow(0.9, step), c2 = 1 - std::pow(0.999, step);
      ops_->adamw({.lr = 1e-2f,
                   .bias_correction1 = static_cast<float>(c1),
                   .bias_correction2 = static_cast<float>(c2)},
                  2.f, tensor({n}, g), w, m, v);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double scaled = 2 * static_cast<double>(g[i]);
        expected[i] -= 1e-2 * 0.1 * expected[i];
        m1[i] = 0.9 * m1[i] + 0.1 * scaled;
        m2[i] = 0.999 * m2[i] + 0.001 * scaled * scaled;
        expected[i] -= 1e-2 * (m1[i] / c1) / (std::sqrt(m2[i] / c2) + 1e-8);
      }
    }
    EXPECT_LT(relative_error(values(w), expected), 1e-6);
    EXPECT_LT(relative_error(values(m), m1), 1e-6);
    // Less accurate, because 1 - 0.999f has an error of 1e-5.
    EXPECT_LT(relative_error(values(v), m2), 1e-4);
  }
}

// The weights must be rounded as convert() rounds them, so that both ways of making the copy agree.
TEST_P(Updates, RoundNewWeightsIntoTheOperands) {
  for (const std::int64_t n : {1, 33, 20011}) {
    const OwnedTensor g = tensor({n}, random(n)), v = tensor({n}), second = tensor({n});
    const OwnedTensor w = tensor({n}, random(n)), alone = tensor({n}, values(w));
    const OwnedTensor operand = activations({n}, random(n)), expected = activations({n});
    ops_->sgd({.lr = 0.1f}, 0.5f, g, w, v, operand);
    ops_->convert(w, expected);
    EXPECT_EQ(values(operand), values(expected));
    ops_->sgd({.lr = 0.1f}, 0.5f, g, alone, tensor({n}));
    EXPECT_EQ(values(w), values(alone));

    ops_->adamw({.lr = 1e-2f}, 2.f, g, w, v, second, operand);
    ops_->convert(w, expected);
    EXPECT_EQ(values(operand), values(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Updates, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
