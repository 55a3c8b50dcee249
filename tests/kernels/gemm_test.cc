// Matrix products against float64.

#include <limits>

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class MatrixProduct : public OnEachDevice {
 protected:
  void agrees_with_float64(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                           bool transpose_b, float alpha, float beta) {
    const std::vector<float> a = random(m * k), b = random(k * n), c = random(m * n);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const auto ai = static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l);
          const auto bi = static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j);
          sum += static_cast<double>(a[ai]) * static_cast<double>(b[bi]);
        }
        expected.push_back(static_cast<double>(alpha) * sum +
                           static_cast<double>(beta) *
                               static_cast<double>(c[static_cast<std::size_t>(i * n + j)]));
      }
    }
    const DeviceTensor dev_a = tensor({m, k}, a), dev_b = tensor({k, n}, b),
                       dev_c = tensor({m, n}, c);
    ops_->gemm({.m = m,
                .n = n,
                .k = k,
                .transpose_a = transpose_a,
                .transpose_b = transpose_b,
                .alpha = alpha,
                .a = dev_a,
                .b = dev_b,
                .beta = beta,
                .c = dev_c});
    EXPECT_LT(relative_error(dev_c.values(), expected), 2e-6)
        << m << " " << n << " " << k << " " << transpose_a << transpose_b;
  }
};

TEST_P(MatrixProduct, AgreesWithFloat64) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      agrees_with_float64(1, 1, 1, transpose_a, transpose_b, 1.f, 0.f);
      agrees_with_float64(7, 13, 5, transpose_a, transpose_b, -0.5f, 1.f);
      agrees_with_float64(32, 65, 129, transpose_a, transpose_b, 2.f, 0.25f);
      agrees_with_float64(33, 16, 700, transpose_a, transpose_b, 1.f, 0.f);
    }
  }
}

TEST_P(MatrixProduct, WithBetaZeroDoesNotReadTheResult) {
  const DeviceTensor a = tensor({2, 3}, random(6)), b = tensor({3, 2}, random(6)),
                     c = tensor({2, 2});
  ops_->fill(c, std::numeric_limits<float>::quiet_NaN());
  ops_->gemm({.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = c});
  EXPECT_TRUE(ops_->all_finite(c));
}

TEST_P(MatrixProduct, RefusesWrongShapes) {
  const DeviceTensor a = tensor({2, 3}), b = tensor({3, 2}), c = tensor({2, 3});
  EXPECT_THROW(ops_->gemm({.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = c}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatrixProduct, testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
