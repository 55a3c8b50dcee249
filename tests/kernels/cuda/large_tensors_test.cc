// Tests tensors of more than 2^31 elements, for which a 32-bit offset would overflow. They are in
// sparse memory of the emulated GPU, which runs only the outer blocks of large launches.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/math/bfloat16.h"
#include "kernels/ops.h"
#include "tests/support/device_values.h"
#include "tests/support/simt/block.h"
#include "tests/support/simt/memory.h"

namespace pfc {
namespace {

// A bfloat16 tensor of the emulated GPU in sparse memory, where only written pages use space. The
// host may access it between the ops. Zero until written.
class SparseTensor {
 public:
  explicit SparseTensor(Shape shape)
      : memory_(static_cast<std::size_t>(shape.elements()) * 2),
        view_(memory_.data(), DType::kBFloat16, shape) {}
  operator const Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  void set(std::int64_t i, float value) { bits(i) = nearest_bfloat16(value); }
  [[nodiscard]] float get(std::int64_t i) const { return float_of(bits(i)); }

 private:
  [[nodiscard]] std::uint16_t& bits(std::int64_t i) const {
    return static_cast<std::uint16_t*>(memory_.data())[i];
  }
  simt::SparseMemory memory_;
  Tensor view_;
};

class LargeTensors : public ::testing::Test {
 protected:
  explicit LargeTensors(int multiprocessors = 1 << 18) : many_(multiprocessors) {}

  simt::Multiprocessors many_;  // so many that each block runs its loop only once
  simt::OnlyOuterBlocks outer_{8};
  std::unique_ptr<Ops> ops_ = make_cuda_ops({.activations = DType::kBFloat16});
};

TEST_F(LargeTensors, AreAddedIncludingTheirLastElement) {
  // The last 5 elements do not fill a pack.
  constexpr std::int64_t kElements = (std::int64_t{1} << 32) + 13;
  SparseTensor a({kElements}), b({kElements});
  const SparseTensor y({kElements});
  for (std::int64_t i = kElements - 20; i < kElements; ++i) {
    a.set(i, static_cast<float>(i - kElements));
    b.set(i, 100.f);
  }
  ops_->add(a, b, y);
  ops_->synchronize();
  for (std::int64_t i = kElements - 20; i < kElements; ++i) {
    EXPECT_EQ(y.get(i), 100.f + static_cast<float>(i - kElements));
  }
  EXPECT_EQ(y.get(3), 0.f);
}

// A tensor [rows, 8] whose only values are in its last rows, beyond 2^32 elements. Blocks that are
// not run leave zeros in scratch; blocks that run on rows of zeros would write the same.
class LargeBatchNorm : public LargeTensors {
 protected:
  static constexpr int kMultiprocessors = 4096;
  // The grid has 3 blocks per multiprocessor, and a block processes 256 rows at a time. The number
  // of rows is a multiple of what the grid processes at a time, so the last row belongs to the
  // last block.
  static constexpr std::int64_t kRows = std::int64_t{171} * kMultiprocessors * 3 * 256;
  static constexpr std::int64_t kChannels = 8, kLast = 50;
  static constexpr std::int64_t kElements = kRows * kChannels;
  static_assert(kElements > std::int64_t{1} << 32);

  LargeBatchNorm() : LargeTensors(kMultiprocessors) {
    auto& device = dynamic_cast<CudaOps&>(*ops_).device();
    bn_ = ops_->batch_norm({.rows = kRows, .channels = kChannels});
    cuda_check(
        cudaMemsetAsync(device.scratch.data(), 0, device.scratch.bytes(), device.compute.get()),
        "zeroing the scratch area");
    for (std::int64_t i = kElements - kLast * kChannels; i < kElements; ++i) {
      x_.set(i, static_cast<float>(i % 5) - 1.f);
    }
  }
  std::unique_ptr<BatchNorm> bn_;
  SparseTensor x_{{kRows, kChannels}};
  const OwnedTensor mean_{*ops_, {kChannels}}, variance_{*ops_, {kChannels}},
      gamma_{*ops_, {kChannels}}, beta_{*ops_, {kChannels}};
};

TEST_F(LargeBatchNorm, ReadsItsLastRows) {
  bn_->statistics(x_, mean_, variance_);
  const std::vector<float> mean = to_host(*ops_, mean_), variance = to_host(*ops_, variance_);
  for (std::int64_t c = 0; c < kChannels; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t i = kElements - kLast * kChannels + c; i < kElements; i += kChannels) {
      const auto v = static_cast<double>(x_.get(i));
      sum += v;
      squares += v * v;
    }
    const double m = sum / static_cast<double>(kRows);
    const auto at = static_cast<std::size_t>(c);
    EXPECT_NEAR(mean[at] / m, 1.0, 1e-6);
    EXPECT_NEAR(variance[at] / (squares / static_cast<double>(kRows) - m * m), 1.0, 1e-6);
  }
}

TEST_F(LargeBatchNorm, SumsAndWritesItsLastRows) {
  ops_->fill(gamma_, 2.f);
  ops_->fill(variance_, 1.f - 1e-5f);
  const SparseTensor y({kRows, kChannels});
  bn_->forward({.x = x_,
                .mean = mean_,
                .variance = variance_,
                .gamma = gamma_,
                .beta = beta_,
                .slope = {},
                .residual = {},
                .y = y,
                .y_mean = {},
                .y_variance = {}});
  const OwnedTensor sum_dz(*ops_, {kChannels}), sum_dz_xhat(*ops_, {kChannels});
  const SparseTensor dx({kRows, kChannels});
  const BatchNorm::Backward b{.dy = x_,
                              .x = x_,
                              .mean = mean_,
                              .variance = variance_,
                              .gamma = gamma_,
                              .beta = beta_,
                              .slope = {},
                              .sum_dz = sum_dz,
                              .sum_dz_xhat = sum_dz_xhat,
                              .dslope = {},
                              .total_rows = kRows,
                              .add = {},
                              .dx = dx};
  bn_->backward_reduce(b);
  bn_->backward_apply(b);
  const std::vector<float> dz = to_host(*ops_, sum_dz), dz_xhat = to_host(*ops_, sum_dz_xhat);
  for (std::int64_t c = 0; c < kChannels; ++c) {
    float sum = 0, squares = 0;
    for (std::int64_t i = kElements - kLast * kChannels + c; i < kElements; i += kChannels) {
      EXPECT_NEAR(y.get(i), 2.f * x_.get(i), 1e-2f);
      EXPECT_NEAR(dx.get(i), 2.f * x_.get(i), 1e-2f);  // the means over 2^29 rows can be neglected
      sum += x_.get(i);
      squares += x_.get(i) * x_.get(i);
    }
    const auto at = static_cast<std::size_t>(c);
    EXPECT_NEAR(dz[at], sum, 1e-3f);
    EXPECT_NEAR(dz_xhat[at], squares, 1e-3f);
  }
}

TEST_F(LargeTensors, AreConvolvedIncludingTheirLastPixel) {
  constexpr Conv2dShape kShape{.batch = 9,
                               .in_h = 8192,
                               .in_w = 8192,
                               .in_c = 8,
                               .out_c = 8,
                               .kernel = 3,
                               .stride = 1,
                               .pad = 1,
                               .groups = 8};
  const std::int64_t elements = kShape.x_shape().elements();
  ASSERT_GT(elements, std::int64_t{1} << 32);
  SparseTensor x(kShape.x_shape()), w(kShape.w_shape());
  const SparseTensor y(kShape.y_shape()), dx(kShape.x_shape());
  for (std::int64_t i = elements - 16; i < elements; ++i) x.set(i, static_cast<float>(i % 5) + 1);
  for (std::int64_t i = 0; i < 72; ++i) w.set(i, static_cast<float>(i % 9));
  const OwnedTensor dw(*ops_, kShape.w_shape());
  const std::unique_ptr<Conv2d> conv = ops_->conv2d(kShape);
  conv->forward(x, w, y);
  conv->backward_data(x, w, dx);
  auto& device = dynamic_cast<CudaOps&>(*ops_).device();
  cuda_check(
      cudaMemsetAsync(device.scratch.data(), 0, device.scratch.bytes(), device.compute.get()),
      "zeroing the sums of blocks that are not run");
  conv->backward_weights(x, x, dw, false);
  const std::vector<float> weights = to_host(*ops_, dw);
  for (std::int64_t c = 0; c < 8; ++c) {
    const float before = x.get(elements - 16 + c), last = x.get(elements - 8 + c);
    EXPECT_EQ(y.get(elements - 8 + c), 3 * before + 4 * last);
    EXPECT_EQ(dx.get(elements - 8 + c), 5 * before + 4 * last);
    EXPECT_EQ(weights[static_cast<std::size_t>(c * 9 + 4)], before * before + last * last);
    EXPECT_EQ(weights[static_cast<std::size_t>(c * 9 + 3)], before * last);
  }
}

}  // namespace
}  // namespace pfc
