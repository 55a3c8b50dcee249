// Compares matrix products with a computation in float64.

#include <cmath>
#include <limits>

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1.f, beta = 0.f;
};

class MatrixProducts : public OnEachDevice {
 protected:
  void agrees_with_float64(const Case& x, DType in, DType out, double tolerance) {
    // The values after the device has rounded them.
    const OwnedTensor dev_a = to_device(*ops_, {x.m, x.k}, random(x.m * x.k), in);
    const OwnedTensor dev_b = to_device(*ops_, {x.k, x.n}, random(x.k * x.n), in);
    const OwnedTensor dev_c = to_device(*ops_, {x.m, x.n}, random(x.m * x.n), out);
    const std::vector<float> a = values(dev_a), b = values(dev_b), c = values(dev_c);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < x.m; ++i) {
      for (std::int64_t j = 0; j < x.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < x.k; ++l) {
          const auto ai = static_cast<std::size_t>(x.transpose_a ? l * x.m + i : i * x.k + l);
          const auto bi = static_cast<std::size_t>(x.transpose_b ? j * x.k + l : l * x.n + j);
          sum += static_cast<double>(a[ai]) * static_cast<double>(b[bi]);
        }
        expected.push_back(static_cast<double>(x.alpha) * sum +
                           static_cast<double>(x.beta) *
                               static_cast<double>(c[static_cast<std::size_t>(i * x.n + j)]));
      }
    }
    ops_->gemm({.m = x.m,
                .n = x.n,
                .k = x.k,
                .transpose_a = x.transpose_a,
                .transpose_b = x.transpose_b,
                .alpha = x.alpha,
                .a = dev_a,
                .b = dev_b,
                .beta = x.beta,
                .c = dev_c});
    EXPECT_LT(relative_error(values(dev_c), expected), tolerance)
        << x.m << " " << x.n << " " << x.k << " " << x.transpose_a << x.transpose_b;
  }

  void all_cases_agree(DType in, DType out, double tolerance) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        agrees_with_float64({1, 1, 1, ta, tb}, in, out, tolerance);
        agrees_with_float64({7, 13, 5, ta, tb, -0.5f, 1.f}, in, out, tolerance);
        agrees_with_float64({32, 65, 129, ta, tb, 2.f, 0.25f}, in, out, tolerance);
        agrees_with_float64({33, 16, 700, ta, tb}, in, out, tolerance);
      }
    }
  }
};

TEST_P(MatrixProducts, AgreeWithFloat64) {
  all_cases_agree(DType::kFloat32, DType::kFloat32, 2e-6);
}

TEST_P(MatrixProducts, AgreeWithFloat64ForActivations) {
  all_cases_agree(ops_->activation_type(), ops_->activation_type(), tolerance());
}

TEST_P(MatrixProducts, SumActivationsInFloat32) {
  all_cases_agree(ops_->activation_type(), DType::kFloat32, 2e-6);
}

TEST_P(MatrixProducts, DoNotReadTheResultIfBetaIsZero) {
  const OwnedTensor a = tensor({2, 3}, random(6)), b = tensor({3, 2}, random(6)),
                    c = tensor({2, 2});
  ops_->fill(c, std::numeric_limits<float>::quiet_NaN());
  ops_->gemm({.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = c});
  EXPECT_TRUE(std::isfinite(ops_->sum_of_squares(c)));
}

TEST_P(MatrixProducts, NeedNoMoreScratchMemoryAfterPlanning) {
  constexpr std::int64_t kM = 300, kN = 200, kK = 700;
  const auto product = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return Gemm{.m = kM, .n = kN, .k = kK, .transpose_a = true, .a = a, .b = b, .c = c};
  };
  const DType type = ops_->activation_type();
  const Tensor no_a(nullptr, type, {kK, kM}), no_b(nullptr, type, {kK, kN}),
      no_c(nullptr, DType::kFloat32, {kM, kN});
  ops_->plan_gemm(product(no_a, no_b, no_c));
  const std::size_t planned = ops_->scratch_bytes();
  ops_->gemm(product(activations({kK, kM}), activations({kK, kN}), tensor({kM, kN})));
  EXPECT_EQ(ops_->scratch_bytes(), planned);
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatrixProducts, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
