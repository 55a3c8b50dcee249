// Tests ReLU, max pooling, average pooling and gates against plain loops.

#include <cmath>
#include <limits>

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class Pooling : public OnEachDevice {
 protected:
  /// Returns values rounded to the activation type, as the ops read them.
  std::vector<float> rounded(const std::vector<float>& x) {
    return values(activations({std::ssize(x)}, x));
  }
};

Conv2dShape pool(std::int64_t h, std::int64_t w, std::int64_t channels, int kernel, int stride,
                 int pad) {
  return {.batch = 3,
          .in_h = h,
          .in_w = w,
          .in_c = channels,
          .out_c = channels,
          .kernel = kernel,
          .stride = stride,
          .pad = pad,
          .groups = channels};
}

/// Calls f(index in y, index in x) for each pixel of each window, row by row.
template <typename F>
void for_each_pixel(const Conv2dShape& s, const F& f) {
  for (std::int64_t i = 0; i < s.y_shape().elements(); ++i) {
    const std::int64_t c = i % s.in_c, column = i / s.in_c % s.out_w();
    const std::int64_t row = i / s.in_c / s.out_w() % s.out_h();
    const std::int64_t image = i / s.in_c / s.out_w() / s.out_h();
    for (std::int64_t r = row * s.stride - s.pad; r < row * s.stride - s.pad + s.kernel; ++r) {
      for (std::int64_t k = column * s.stride - s.pad; k < column * s.stride - s.pad + s.kernel;
           ++k) {
        if (r < 0 || r >= s.in_h || k < 0 || k >= s.in_w) continue;
        f(static_cast<std::size_t>(i),
          static_cast<std::size_t>(((image * s.in_h + r) * s.in_w + k) * s.in_c + c));
      }
    }
  }
}

// The window of torchvision on even, odd and oblong images; a window without overlap; single
// pixels; and a window that is larger than the image. The channels fill whole vectors or leave a
// remainder.
const Conv2dShape kPools[] = {pool(8, 8, 64, 3, 2, 1), pool(9, 5, 17, 3, 2, 1),
                              pool(6, 10, 3, 2, 2, 0), pool(5, 7, 8, 1, 2, 0),
                              pool(3, 2, 19, 5, 3, 2), pool(30, 33, 40, 3, 2, 1)};

TEST_P(Pooling, MaxPoolTakesTheFirstLargestNumber) {
  for (const Conv2dShape& shape : kPools) {
    // There are few different numbers, so that several numbers in a window are the largest.
    std::vector<float> x = random(shape.x_shape().elements());
    for (float& each : x) each = std::round(2 * each) / 2 - 1;
    const std::vector<float> dy = rounded(random(shape.y_shape().elements()));
    const std::size_t outputs = dy.size();
    std::vector<float> largest(outputs, -std::numeric_limits<float>::infinity());
    std::vector<std::size_t> winner(outputs);
    for_each_pixel(shape, [&](std::size_t i, std::size_t from) {
      if (x[from] > largest[i]) largest[i] = x[from], winner[i] = from;
    });
    std::vector<float> gradient(x.size());
    for (std::size_t i = 0; i < outputs; ++i) gradient[winner[i]] += dy[i];

    const OwnedTensor in = activations(shape.x_shape(), x), y = activations(shape.y_shape()),
                      winners(*ops_, shape.y_shape(), DType::kUInt8),
                      d = activations(shape.y_shape(), dy), dx = activations(shape.x_shape(), x);
    ops_->max_pool(shape, in, y, winners);
    EXPECT_EQ(values(y), largest);
    ops_->max_pool_backward(shape, d, winners, dx);
    EXPECT_LT(relative_error(values(dx), gradient), tolerance());
    ops_->max_pool(shape, in, d, {});
    EXPECT_EQ(values(d), largest);
  }
}

// A step in which numbers have overflowed must not look like a good step.
TEST_P(Pooling, MaxPoolKeepsNaN) {
  const Conv2dShape shape = pool(4, 4, 20, 3, 2, 1);
  for (const std::int64_t row : {0, 1, 3}) {
    std::vector<float> x = random(shape.x_shape().elements());
    const auto of_first_image = static_cast<std::size_t>(row * 4 * 20);  // column 0, channel 0
    x[of_first_image] = std::numeric_limits<float>::quiet_NaN();
    const OwnedTensor in = activations(shape.x_shape(), x), y = activations(shape.y_shape());
    ops_->max_pool(shape, in, y, {});
    const std::vector<float> found = values(y);
    EXPECT_EQ(std::ranges::count_if(found, [](float each) { return std::isnan(each); }),
              row == 1 ? 2 : 1);
  }
}

TEST_P(Pooling, AveragePoolAgreesWithFloat64) {
  for (const std::int64_t n : {1, 33, 200}) {
    for (const std::int64_t side : {1, 7, 40}) {
      const Shape shape{3, side, side + 1, n};
      const auto pixels = static_cast<std::size_t>(side * (side + 1));
      const std::vector<float> x = rounded(random(shape.elements(), 2.f));
      std::vector<double> mean(static_cast<std::size_t>(3 * n));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto channels = static_cast<std::size_t>(n);
        mean[i / (pixels * channels) * channels + i % channels] +=
            static_cast<double>(x[i]) / static_cast<double>(pixels);
      }
      const OwnedTensor in = activations(shape, x), y = tensor({3, n}), half = activations({3, n});
      ops_->average_pool(in, y);
      EXPECT_LT(relative_error(values(y), mean), 1e-5);
      ops_->average_pool(in, half);
      EXPECT_LT(relative_error(values(half), mean), tolerance());
    }
  }
}

TEST_P(Pooling, GradientOfAveragePoolIsDividedAmongThePixels) {
  const Shape shape{2, 5, 30, 77};
  const std::vector<float> x = rounded(random(shape.elements())), dy = rounded(random(2 * 77));
  const OwnedTensor d = tensor({2, 77}, dy), half = activations({2, 77}, dy),
                    dx = activations(shape, x);
  std::vector<double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] = static_cast<double>(dy[i / (150 * 77) * 77 + i % 77]) / 150;
  }
  ops_->average_pool_backward(d, dx, false);
  EXPECT_LT(relative_error(values(dx), expected), tolerance());
  const OwnedTensor sum = activations(shape, x);
  ops_->average_pool_backward(half, sum, true);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] += static_cast<double>(x[i]);
  EXPECT_LT(relative_error(values(sum), expected), tolerance());
}

TEST_P(Pooling, GateMultipliesEachChannelOfEachSample) {
  for (const Shape& shape : {Shape{3, 4, 5, 19}, Shape{2, 30, 31, 64}}) {
    const std::int64_t n = shape[3], count = shape[0] * n;
    const auto pixels = static_cast<std::size_t>(shape[1] * shape[2]);
    const std::vector<float> x = rounded(random(shape.elements())),
                             residual = rounded(random(shape.elements())),
                             dy = rounded(random(shape.elements(), 0.5f)),
                             logits = rounded(random(count, 0, 2));
    std::vector<double> y, dx, dlogits(logits.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto channels = static_cast<std::size_t>(n);
      const std::size_t at = i / (pixels * channels) * channels + i % channels;
      const double gate = 1 / (1 + std::exp(-static_cast<double>(logits[at])));
      y.push_back(static_cast<double>(x[i]) * gate + static_cast<double>(residual[i]));
      dx.push_back(static_cast<double>(dy[i]) * gate);
      dlogits[at] += static_cast<double>(dy[i]) * static_cast<double>(x[i]) * gate * (1 - gate);
    }
    const OwnedTensor in = activations(shape, x), branch = activations(shape, residual),
                      d = activations(shape, dy), of = activations({shape[0], n}, logits),
                      out = activations(shape), dof = activations({shape[0], n});
    ops_->gate(in, of, branch, out);
    EXPECT_LT(relative_error(values(out), y), tolerance());
    ops_->gate_backward(d, in, of, {}, dof);
    EXPECT_LT(relative_error(values(dof), dlogits), tolerance());
    ops_->gate_backward(d, in, of, d, dof);
    EXPECT_LT(relative_error(values(dof), dlogits), tolerance());
    EXPECT_LT(relative_error(values(d), dx), tolerance());
  }
}

TEST_P(Pooling, ReluHasNoGradientAtAndBelowZero) {
  for (const std::int64_t n : {1, 19, 40'000}) {
    std::vector<float> x = rounded(random(n)), d = rounded(random(n));
    x[0] = 0;
    const OwnedTensor y = activations({n}, x), dy = activations({n}, d);
    ops_->relu(y);
    ops_->relu_backward(y, dy);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!(x[i] > 0)) x[i] = d[i] = 0;
    }
    EXPECT_EQ(values(y), x);
    EXPECT_EQ(values(dy), d);
  }
  const OwnedTensor nan = activations({1}, std::vector{std::numeric_limits<float>::quiet_NaN()});
  ops_->relu(nan);
  EXPECT_TRUE(std::isnan(values(nan)[0]));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Pooling, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
