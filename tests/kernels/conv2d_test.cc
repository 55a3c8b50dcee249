// Compares convolutions with a direct computation in float64, for shapes of the backbones and for
// unusual ones.

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

struct Reference {
  std::vector<double> y, dx, dw;
};

// Calls f(x index, w index, y index) for every product of a convolution.
template <typename F>
void for_each_product(const Conv2dShape& s, const F& f) {
  const std::int64_t in = s.in_c / s.groups, out = s.out_c / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t oh = 0; oh < s.out_h(); ++oh) {
      for (std::int64_t ow = 0; ow < s.out_w(); ++ow) {
        for (std::int64_t kh = 0; kh < s.kernel; ++kh) {
          for (std::int64_t kw = 0; kw < s.kernel; ++kw) {
            const std::int64_t ih = oh * s.stride + kh - s.pad;
            const std::int64_t iw = ow * s.stride + kw - s.pad;
            if (ih < 0 || ih >= s.in_h || iw < 0 || iw >= s.in_w) continue;
            for (std::int64_t o = 0; o < s.out_c; ++o) {
              const std::int64_t first = o / out * in;
              for (std::int64_t i = 0; i < in; ++i) {
                f(((n * s.in_h + ih) * s.in_w + iw) * s.in_c + first + i,
                  ((o * s.kernel + kh) * s.kernel + kw) * in + i,
                  ((n * s.out_h() + oh) * s.out_w() + ow) * s.out_c + o);
              }
            }
          }
        }
      }
    }
  }
}

Reference direct_convolution(const Conv2dShape& s, const std::vector<float>& x,
                             const std::vector<float>& w, const std::vector<float>& dy) {
  Reference r{std::vector<double>(dy.size()), std::vector<double>(x.size()),
              std::vector<double>(w.size())};
  for_each_product(s, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    const auto i = static_cast<std::size_t>(xi), j = static_cast<std::size_t>(wi),
               k = static_cast<std::size_t>(yi);
    r.y[k] += static_cast<double>(x[i]) * static_cast<double>(w[j]);
    r.dx[i] += static_cast<double>(dy[k]) * static_cast<double>(w[j]);
    r.dw[j] += static_cast<double>(dy[k]) * static_cast<double>(x[i]);
  });
  return r;
}

class Convolution : public OnEachDevice {
 protected:
  void agrees_with_float64(const Conv2dShape& s) {
    SCOPED_TRACE("in " + std::to_string(s.in_h) + "x" + std::to_string(s.in_w) + "x" +
                 std::to_string(s.in_c) + " out_c " + std::to_string(s.out_c) + " kernel " +
                 std::to_string(s.kernel) + " stride " + std::to_string(s.stride) + " groups " +
                 std::to_string(s.groups));
    const OwnedTensor dev_x = activations(s.x_shape(), random(s.x_shape().elements())),
                      dev_w = activations(s.w_shape(), random(s.w_shape().elements())),
                      dev_dy = activations(s.y_shape(), random(s.y_shape().elements()));
    // The values after the device has rounded them.
    const std::vector<float> x = values(dev_x), w = values(dev_w), dy = values(dev_dy);
    const Reference expected = direct_convolution(s, x, w, dy);
    // The results start with other numbers, which must be overwritten.
    const OwnedTensor y = activations(s.y_shape(), dy), dx = activations(s.x_shape(), x),
                      dw = tensor(s.w_shape(), w);
    const std::unique_ptr<Conv2d> conv = ops_->conv2d(s);
    conv->forward(dev_x, dev_w, y);
    EXPECT_LT(relative_error(values(y), expected.y), tolerance());
    conv->backward_data(dev_dy, dev_w, dx);
    EXPECT_LT(relative_error(values(dx), expected.dx), tolerance());
    conv->backward_weights(dev_x, dev_dy, dw, false);
    EXPECT_LT(relative_error(values(dw), expected.dw), tolerance());

    conv->backward_weights(dev_x, dev_dy, dw, true);
    std::vector<double> twice = expected.dw;
    for (double& v : twice) v *= 2;
    EXPECT_LT(relative_error(values(dw), twice), tolerance());
  }

  // Tests weight gradients over so many pixels that a single float32 sum would have only five
  // correct digits.
  void weight_gradient_is_accurate(const Conv2dShape& s, double rounding = 0) {
    const OwnedTensor dev_x = activations(s.x_shape(), repeated(s.x_shape().elements())),
                      dev_dy = activations(s.y_shape(), repeated(s.y_shape().elements())),
                      dw = tensor(s.w_shape());
    const std::vector<float> x = values(dev_x), dy = values(dev_dy);
    std::vector<double> expected(static_cast<std::size_t>(s.w_shape().elements()));
    for_each_product(s, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
      expected[static_cast<std::size_t>(wi)] +=
          static_cast<double>(x[static_cast<std::size_t>(xi)]) *
          static_cast<double>(dy[static_cast<std::size_t>(yi)]);
    });
    ops_->conv2d(s)->backward_weights(dev_x, dev_dy, dw, false);
    EXPECT_LT(relative_error(values(dw), expected),
              sum_tolerance(s.batch * s.out_h() * s.out_w()) + rounding);
  }

  /// The relative error of rounding a sum to the activations' type, in which cuDNN returns it.
  [[nodiscard]] double cudnn_rounding() const {
    const DType type = ops_->activation_type();
    if (ops_->on_host() || type == DType::kFloat32) return 0;
    return type == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
  }

  /// The relative error that a sum of n products may have. Products of two 16-bit numbers are exact
  /// in float32, and all sums are float32. pfc and the emulated GPU add pairwise or in float64,
  /// which keeps six digits. A real GPU adds many parts, each sequentially. A tensor core adds 8
  /// products or more at a time and truncates the sum, so its errors have one sign:
  /// - An addition loses between 0 and 2^-23 of the sum so far, on average half of that.
  /// - The sum so far is on average half of the final one.
  /// - A GPU uses 256 parts or more, so a part has at most n / 256 products.
  /// The error is n / 256 / 8 additions * 2^-23 / 4.
  [[nodiscard]] double sum_tolerance(std::int64_t n) const {
    if (ops_->on_host() || on_emulated_gpu()) return 2e-6;
    return 2e-6 + static_cast<double>(n) / (256 * 8) * 0x1p-23 / 4;
  }

  static Conv2dShape three_by_three(Conv2dShape shape) {
    shape.kernel = 3;
    shape.pad = 1;
    return shape;
  }

  // Repeats the same random numbers, because drawing so many would take long.
  std::vector<float> repeated(std::int64_t n) {
    const std::vector<float> few = random(65537, 0.1f);
    std::vector<float> all(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = few[i % few.size()];
    return all;
  }
};

TEST_P(Convolution, Kernel3x3AgreesWithFloat64) {
  agrees_with_float64(three_by_three({.batch = 3, .in_h = 9, .in_w = 9, .in_c = 64, .out_c = 64}));
  agrees_with_float64(
      three_by_three({.batch = 2, .in_h = 14, .in_w = 10, .in_c = 32, .out_c = 48, .stride = 2}));
  agrees_with_float64(
      three_by_three({.batch = 2, .in_h = 7, .in_w = 7, .in_c = 64, .out_c = 128, .stride = 2}));
}

// The channels fill panels and vectors and leave remainders after both, for one thread and for
// three. In float32, a CPU uses Winograd's algorithm here if oneDNN has it, in two parts of three
// images.
TEST_P(Convolution, ManyChannelsAndPixelsAgreeWithFloat64) {
  const Conv2dShape s{
      .batch = 6, .in_h = 41, .in_w = 38, .in_c = 64, .out_c = 72, .kernel = 3, .pad = 1};
  const OwnedTensor dev_x = activations(s.x_shape(), random(s.x_shape().elements())),
                    dev_w = activations(s.w_shape(), random(s.w_shape().elements()));
  const std::vector<float> x = values(dev_x), w = values(dev_w);
  const OwnedTensor y = activations(s.y_shape()), dx = activations(s.x_shape());
  const std::unique_ptr<Conv2d> conv = ops_->conv2d(s);
  conv->forward(dev_x, dev_w, y);
  // Used as dy, y gives a dx in which each image depends only on the same image of y, so checking
  // an image of each part is enough.
  conv->backward_data(y, dev_w, dx);
  const bool few_digits = ops_->activation_type() != DType::kFloat32 || !ops_->on_host();
  const double most = few_digits ? tolerance() : 2e-6;
  const std::vector<float> got_y = values(y), got_dx = values(dx);
  for (const std::int64_t image : {2, 3}) {
    Conv2dShape one = s;
    one.batch = 1;
    const auto part = [&](const std::vector<float>& all, std::int64_t size) {
      return std::vector<float>(all.begin() + image * size, all.begin() + (image + 1) * size);
    };
    const std::int64_t x_size = one.x_shape().elements(), y_size = one.y_shape().elements();
    const std::vector<float> image_y = part(got_y, y_size);
    const Reference expected = direct_convolution(one, part(x, x_size), w, image_y);
    EXPECT_LT(relative_error(image_y, expected.y), most);
    EXPECT_LT(relative_error(part(got_dx, x_size), expected.dx), most);
  }
}

TEST_P(Convolution, ChannelsThatDoNotFillAVectorAgreeWithFloat64) {
  for (const int stride : {1, 2}) {
    agrees_with_float64(three_by_three(
        {.batch = 2, .in_h = 8, .in_w = 9, .in_c = 139, .out_c = 23, .stride = stride}));
  }
}

TEST_P(Convolution, StemAgreesWithFloat64) {
  agrees_with_float64(three_by_three({.batch = 3, .in_h = 16, .in_w = 16, .in_c = 3, .out_c = 64}));
  agrees_with_float64(
      three_by_three({.batch = 3, .in_h = 17, .in_w = 16, .in_c = 3, .out_c = 64, .stride = 2}));
}

TEST_P(Convolution, Kernel1x1AgreesWithFloat64) {
  agrees_with_float64({.batch = 3, .in_h = 7, .in_w = 5, .in_c = 32, .out_c = 64});
  agrees_with_float64({.batch = 3, .in_h = 8, .in_w = 8, .in_c = 64, .out_c = 128, .stride = 2});
  agrees_with_float64({.batch = 2, .in_h = 9, .in_w = 7, .in_c = 16, .out_c = 32, .stride = 2});
}

TEST_P(Convolution, DepthwiseAgreesWithFloat64) {
  for (const int stride : {1, 2}) {
    for (const std::int64_t channels : {16, 64, 128, 37}) {
      for (const std::int64_t size : {21, 14, 9, 7}) {
        agrees_with_float64(three_by_three({.batch = 3,
                                            .in_h = size,
                                            .in_w = size,
                                            .in_c = channels,
                                            .out_c = channels,
                                            .stride = stride,
                                            .groups = channels}));
      }
    }
  }
}

TEST_P(Convolution, OddDepthwiseShapesAgreeWithFloat64) {
  struct Odd {
    int kernel, stride, pad;
    std::int64_t h, w, channels;
  };
  for (const Odd& o : {Odd{3, 1, 0, 5, 8, 16}, Odd{3, 1, 2, 4, 3, 8}, Odd{3, 3, 1, 11, 7, 24},
                       Odd{3, 2, 0, 6, 9, 5}, Odd{5, 1, 2, 9, 6, 16}, Odd{5, 2, 1, 8, 11, 264},
                       Odd{7, 1, 3, 9, 9, 8}, Odd{7, 2, 3, 10, 12, 3}, Odd{3, 1, 3, 3, 4, 8}}) {
    agrees_with_float64({.batch = 2,
                         .in_h = o.h,
                         .in_w = o.w,
                         .in_c = o.channels,
                         .out_c = o.channels,
                         .kernel = o.kernel,
                         .stride = o.stride,
                         .pad = o.pad,
                         .groups = o.channels});
  }
}

TEST_P(Convolution, WholeImageDepthwiseAgreesWithFloat64) {
  agrees_with_float64(
      {.batch = 3, .in_h = 7, .in_w = 7, .in_c = 128, .out_c = 128, .kernel = 7, .groups = 128});
  agrees_with_float64(
      {.batch = 5, .in_h = 7, .in_w = 7, .in_c = 21, .out_c = 21, .kernel = 7, .groups = 21});
}

TEST_P(Convolution, TwoChannelGroupsAgreeWithFloat64) {
  agrees_with_float64(three_by_three(
      {.batch = 2, .in_h = 12, .in_w = 12, .in_c = 128, .out_c = 128, .groups = 64}));
  agrees_with_float64(three_by_three(
      {.batch = 3, .in_h = 7, .in_w = 9, .in_c = 24, .out_c = 24, .stride = 2, .groups = 12}));
}

TEST_P(Convolution, WiderGroupsAgreeWithFloat64) {
  agrees_with_float64(
      three_by_three({.batch = 2, .in_h = 6, .in_w = 6, .in_c = 32, .out_c = 64, .groups = 4}));
}

TEST_P(Convolution, OddShapesAgreeWithFloat64) {
  std::uniform_int_distribution<int> small(1, 11), channels(1, 40), step(1, 3);
  for (int i = 0; i < 12; ++i) {
    const int kernel = std::min(small(generator_), 5);
    agrees_with_float64({.batch = step(generator_),
                         .in_h = kernel + small(generator_),
                         .in_w = kernel + small(generator_),
                         .in_c = channels(generator_),
                         .out_c = channels(generator_),
                         .kernel = kernel,
                         .stride = step(generator_),
                         .pad = kernel / 2});
  }
}

TEST_P(Convolution, StemSumsOneAndAHalfMillionPixelsAccurately) {
  weight_gradient_is_accurate({.batch = 128, .in_h = 112, .in_w = 112, .in_c = 3, .out_c = 2});
}

TEST_P(Convolution, ManyChannelsSumManyPixelsAccurately) {
  weight_gradient_is_accurate({.batch = 128, .in_h = 56, .in_w = 56, .in_c = 16, .out_c = 12});
  // With three threads, each has fewer output channels than the CPU's own code supports.
  weight_gradient_is_accurate({.batch = 128, .in_h = 56, .in_w = 56, .in_c = 16, .out_c = 8});
}

TEST_P(Convolution, DepthwiseSumsManyPixelsAccurately) {
  weight_gradient_is_accurate(
      three_by_three({.batch = 128, .in_h = 112, .in_w = 112, .in_c = 2, .out_c = 2, .groups = 2}));
  weight_gradient_is_accurate(three_by_three(
      {.batch = 128, .in_h = 56, .in_w = 56, .in_c = 16, .out_c = 16, .stride = 2, .groups = 16}));
}

TEST_P(Convolution, TwoChannelGroupsSumManyPixelsAccurately) {
  weight_gradient_is_accurate(
      three_by_three({.batch = 128, .in_h = 56, .in_w = 56, .in_c = 4, .out_c = 4, .groups = 2}),
      cudnn_rounding());
}

// These are shapes of r50. A real GPU divides large sums among its blocks, so the batch is as large
// as in a job.
TEST_P(Convolution, GivesTheSameBitsEveryTime) {
  const std::int64_t batch = ops_->on_host() || on_emulated_gpu() ? 1 : 128;
  for (Conv2dShape s : {Conv2dShape{.in_h = 56, .in_c = 64, .out_c = 64, .kernel = 3, .pad = 1},
                        Conv2dShape{.in_h = 56, .in_c = 64, .out_c = 128, .stride = 2},
                        Conv2dShape{.in_h = 14, .in_c = 256, .out_c = 256, .kernel = 3, .pad = 1},
                        Conv2dShape{.in_h = 112, .in_c = 3, .out_c = 64, .kernel = 3, .pad = 1}}) {
    s.batch = batch;
    s.in_w = s.in_h;
    SCOPED_TRACE("in_h " + std::to_string(s.in_h) + " stride " + std::to_string(s.stride));
    const OwnedTensor x = activations(s.x_shape(), repeated(s.x_shape().elements())),
                      w = activations(s.w_shape(), random(s.w_shape().elements())),
                      dy = activations(s.y_shape(), repeated(s.y_shape().elements()));
    const OwnedTensor y = activations(s.y_shape()), dx = activations(s.x_shape()),
                      dw = tensor(s.w_shape());
    const std::unique_ptr<Conv2d> conv = ops_->conv2d(s);
    std::vector<std::vector<float>> first;
    for (int time = 0; time < 3; ++time) {
      conv->forward(x, w, y);
      conv->backward_data(dy, w, dx);
      conv->backward_weights(x, dy, dw, false);
      const std::vector<std::vector<float>> found{values(y), values(dx), values(dw)};
      if (time == 0) first = found;
      EXPECT_EQ(found[0], first[0]) << "the forward pass differs";
      EXPECT_EQ(found[1], first[1]) << "the data gradient differs";
      EXPECT_EQ(found[2], first[2]) << "the weight gradient differs";
    }
  }
}

TEST_P(Convolution, UsesTheWeightsOfEachCall) {
  const Conv2dShape s{.batch = 1, .in_h = 4, .in_w = 4, .in_c = 16, .out_c = 16};
  const OwnedTensor x = activations(s.x_shape(), random(s.x_shape().elements()));
  const OwnedTensor w = activations(s.w_shape(), random(s.w_shape().elements()));
  const OwnedTensor y = activations(s.y_shape());
  const std::unique_ptr<Conv2d> conv = ops_->conv2d(s);
  conv->forward(x, w, y);
  ops_->copy(activations(s.w_shape()), w);
  conv->forward(x, w, y);
  for (const float v : values(y)) EXPECT_EQ(v, 0.f);
}

TEST_P(Convolution, GivesTheSameResultAfterALargerPlan) {
  const Conv2dShape small{
      .batch = 2, .in_h = 6, .in_w = 6, .in_c = 16, .out_c = 16, .kernel = 3, .pad = 1};
  const OwnedTensor x = activations(small.x_shape(), random(small.x_shape().elements()));
  const OwnedTensor w = activations(small.w_shape(), random(small.w_shape().elements()));
  const OwnedTensor before = activations(small.y_shape()), after = activations(small.y_shape());
  const std::unique_ptr<Conv2d> conv = ops_->conv2d(small);
  conv->forward(x, w, before);
  // A plan for a larger shape moves the shared scratch memory.
  agrees_with_float64(
      {.batch = 2, .in_h = 12, .in_w = 12, .in_c = 64, .out_c = 96, .kernel = 3, .pad = 1});
  conv->forward(x, w, after);
  EXPECT_EQ(values(before), values(after));
}

TEST_P(Convolution, IsBitIdenticalEveryTime) {
  const Conv2dShape s{
      .batch = 4, .in_h = 14, .in_w = 14, .in_c = 64, .out_c = 64, .kernel = 3, .pad = 1};
  const OwnedTensor x = activations(s.x_shape(), random(s.x_shape().elements()));
  const OwnedTensor dy = activations(s.y_shape(), random(s.y_shape().elements()));
  const OwnedTensor first = tensor(s.w_shape()), second = tensor(s.w_shape());
  ops_->conv2d(s)->backward_weights(x, dy, first, false);
  ops_->conv2d(s)->backward_weights(x, dy, second, false);
  EXPECT_EQ(values(first), values(second));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Convolution, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
