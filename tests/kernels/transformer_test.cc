// Tests the ops of vision transformers against float64: attention, layer norm, ReLU6, and the
// masks of tokens and of drop path.

#include <cmath>
#include <numeric>

#include "kernels/math/masks/dropout.h"
#include "kernels/math/masks/token_mask.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

using Doubles = std::vector<double>;

class Transformer : public OnEachDevice {
 protected:
  /// Returns values rounded to the activation type, as the ops read them.
  std::vector<float> rounded(const std::vector<float>& x) {
    return values(activations({std::ssize(x)}, x));
  }
};

/// Attention in float64, [batch, tokens, 3, heads, size] -> [batch, tokens, heads, size].
Doubles attend(const AttentionShape& s, const Doubles& qkv) {
  const std::int64_t width = s.heads * s.head_size;
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t i, std::int64_t h) {
    return qkv.data() + ((b * s.tokens + t) * 3 + i) * width + h * s.head_size;
  };
  Doubles y(static_cast<std::size_t>(s.batch * s.tokens * width));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        Doubles weights;
        for (std::int64_t u = 0; u < s.tokens; ++u) {
          const double* const q = at(b, t, 0, h);
          const double product = std::inner_product(q, q + s.head_size, at(b, u, 1, h), 0.0);
          weights.push_back(std::exp(product / std::sqrt(static_cast<double>(s.head_size))));
        }
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (std::int64_t u = 0; u < s.tokens; ++u) {
          for (std::int64_t i = 0; i < s.head_size; ++i) {
            y[static_cast<std::size_t>((b * s.tokens + t) * width + h * s.head_size + i)] +=
                weights[static_cast<std::size_t>(u)] / sum * at(b, u, 2, h)[i];
          }
        }
      }
    }
  }
  return y;
}

// Token counts that are not multiples of a vector, and one that is; head sizes of vit_t to vit_h.
const AttentionShape kShapes[] = {{.batch = 2, .tokens = 9, .heads = 2, .head_size = 16},
                                  {.batch = 1, .tokens = 1, .heads = 1, .head_size = 32},
                                  {.batch = 1, .tokens = 33, .heads = 3, .head_size = 64},
                                  {.batch = 2, .tokens = 16, .heads = 1, .head_size = 96},
                                  {.batch = 1, .tokens = 7, .heads = 1, .head_size = 128}};

TEST_P(Transformer, AttentionAgreesWithFloat64) {
  for (const AttentionShape& shape : kShapes) {
    const std::vector<float> qkv = rounded(random(shape.qkv_shape().elements()));
    const OwnedTensor x = activations(shape.qkv_shape(), qkv), y = activations(shape.y_shape());
    ops_->attention(shape)->forward(x, y);
    EXPECT_LT(relative_error(values(y), attend(shape, {qkv.begin(), qkv.end()})), tolerance());
  }
}

TEST_P(Transformer, AttentionAgreesWithFloat64ForLargeProducts) {
  const AttentionShape shape = kShapes[0];
  const std::vector<float> qkv = rounded(random(shape.qkv_shape().elements(), 0, 8));
  const OwnedTensor x = activations(shape.qkv_shape(), qkv), y = activations(shape.y_shape());
  ops_->attention(shape)->forward(x, y);
  EXPECT_LT(relative_error(values(y), attend(shape, {qkv.begin(), qkv.end()})), 10 * tolerance());
}

TEST_P(Transformer, GradientOfAttentionAgreesWithFiniteDifferences) {
  for (const AttentionShape& shape : kShapes) {
    const std::vector<float> qkv = rounded(random(shape.qkv_shape().elements()));
    const std::vector<float> dy = rounded(random(shape.y_shape().elements()));
    const OwnedTensor x = activations(shape.qkv_shape(), qkv), d = activations(shape.y_shape(), dy),
                      dx = activations(shape.qkv_shape());
    ops_->attention(shape)->backward(x, d, dx);
    const auto loss = [&](const Doubles& moved) {
      const Doubles y = attend(shape, moved);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    const std::vector<float> found = values(dx);
    Doubles expected, compared;
    for (std::size_t i = 0; i < qkv.size(); i += qkv.size() / 96 + 1) {
      Doubles up(qkv.begin(), qkv.end()), down(qkv.begin(), qkv.end());
      up[i] += 1e-5;
      down[i] -= 1e-5;
      expected.push_back((loss(up) - loss(down)) / 2e-5);
      compared.push_back(static_cast<double>(found[i]));
    }
    EXPECT_LT(relative_error(compared, expected), 2 * tolerance()) << shape.tokens;
  }
}

Doubles normalise(const Doubles& x, const std::vector<float>& gamma,
                  const std::vector<float>& beta) {
  Doubles y;
  const auto n = gamma.size();
  for (std::size_t row = 0; row < x.size(); row += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[row + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      y.push_back((x[row + i] - mean) / std::sqrt(variance + 1e-5) * double{gamma[i]} +
                  double{beta[i]});
    }
  }
  return y;
}

TEST_P(Transformer, LayerNormAgreesWithFloat64) {
  for (const std::int64_t n : {1, 15, 32, 257}) {
    constexpr std::int64_t kRows = 70;
    const std::vector<float> x = random(kRows * n, 3.f, 2.f), gamma = random(n, 1.f),
                             beta = random(n);
    const OwnedTensor in = tensor({kRows, n}, x), scale = tensor({n}, gamma),
                      shift = tensor({n}, beta), y = activations({kRows, n}),
                      statistics = tensor({kRows, 2});
    ops_->layer_norm({.x = in, .gamma = scale, .beta = shift, .y = y, .statistics = statistics});
    EXPECT_LT(relative_error(values(y), normalise({x.begin(), x.end()}, gamma, beta)), tolerance())
        << n;
  }
}

TEST_P(Transformer, GradientOfLayerNormAgreesWithFiniteDifferences) {
  // There are many rows, so that a GPU divides them among blocks.
  for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{6, 37}, {700, 5}}) {
    const std::vector<float> x = random(rows * n, 1.f, 2.f), gamma = random(n, 1.f),
                             beta = random(n), dy = rounded(random(rows * n)),
                             add = random(rows * n), sums = random(n);
    const OwnedTensor in = tensor({rows, n}, x), scale = tensor({n}, gamma),
                      shift = tensor({n}, beta), y = activations({rows, n}),
                      statistics = tensor({rows, 2}), gradient = activations({rows, n}, dy),
                      dx = tensor({rows, n}, add), dgamma = tensor({n}, sums),
                      dbeta = tensor({n}, sums);
    ops_->layer_norm({.x = in, .gamma = scale, .beta = shift, .y = y, .statistics = statistics});
    LayerNormBackward b{.dy = gradient,
                        .x = in,
                        .statistics = statistics,
                        .gamma = scale,
                        .add = dx,
                        .dx = dx,
                        .dgamma = dgamma,
                        .dbeta = dbeta,
                        .accumulate = true};
    ops_->layer_norm_backward(b);
    const auto loss = [&](const Doubles& moved, const std::vector<float>& g,
                          const std::vector<float>& offset) {
      const Doubles result = normalise(moved, g, offset);
      return std::inner_product(result.begin(), result.end(), dy.begin(), 0.0);
    };
    const Doubles start(x.begin(), x.end());
    Doubles expected, compared;
    const std::vector<float> found = values(dx);
    for (std::size_t i = 0; i < x.size(); i += x.size() / 96 + 1) {
      Doubles up = start, down = start;
      up[i] += 1e-5;
      down[i] -= 1e-5;
      expected.push_back((loss(up, gamma, beta) - loss(down, gamma, beta)) / 2e-5);
      compared.push_back(static_cast<double>(found[i] - add[i]));
    }
    EXPECT_LT(relative_error(compared, expected), 1e-5);
    Doubles of_gamma, of_beta;
    for (std::size_t i = 0; i < gamma.size(); ++i) {
      std::vector<float> one(gamma.size());
      one[i] = 1;
      const std::vector<float> zero(gamma.size());
      of_gamma.push_back(double{sums[i]} + loss(start, one, zero));
      of_beta.push_back(double{sums[i]} + loss(start, zero, one));
    }
    EXPECT_LT(relative_error(values(dgamma), of_gamma), 1e-5);
    EXPECT_LT(relative_error(values(dbeta), of_beta), 1e-5);
    // Now without accumulation, and without the results that a caller may leave out.
    b.accumulate = false;
    b.dx = b.add = b.dbeta = {};
    ops_->layer_norm_backward(b);
    for (std::size_t i = 0; i < gamma.size(); ++i) of_gamma[i] -= double{sums[i]};
    EXPECT_LT(relative_error(values(dgamma), of_gamma), 1e-5);
    EXPECT_EQ(values(dx), found);
  }
}

TEST_P(Transformer, Relu6ClipsAndHasNoGradientOutsideItsRange) {
  for (const std::int64_t n : {1, 19, 300}) {
    constexpr std::int64_t kRows = 70;
    const std::vector<float> x = rounded(random(kRows * n, 2.f, 4.f)), b = random(n),
                             d = rounded(random(kRows * n));
    const OwnedTensor y = activations({kRows, n}, x), dy = activations({kRows, n}, d),
                      bias = tensor({n}, b);
    ops_->add_bias_relu6(y, bias);
    ops_->relu_backward(y, dy, 6);
    const std::vector<float> found = values(y), gradient = values(dy);
    Doubles expected;
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected.push_back(std::clamp(static_cast<double>(x[i] + b[i % b.size()]), 0.0, 6.0));
      EXPECT_EQ(gradient[i], found[i] > 0 && found[i] < 6 ? d[i] : 0);
    }
    EXPECT_LT(relative_error(found, expected), tolerance());
    EXPECT_EQ(*std::ranges::max_element(found), 6);
  }
}

TEST_P(Transformer, AddBiasAndColumnSumsAcceptActivations) {
  constexpr std::int64_t kRows = 800, kColumns = 21;
  const std::vector<float> x = rounded(random(kRows * kColumns)), b = random(kColumns);
  const OwnedTensor y = activations({kRows, kColumns}, x), sums = tensor({kColumns}),
                    bias = tensor({kColumns}, b);
  ops_->column_sums(y, sums, false);
  Doubles expected(kColumns);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % kColumns] += double{x[i]};
  EXPECT_LT(relative_error(values(sums), expected), 1e-6);
  ops_->add_bias(y, bias);
  Doubles moved;
  for (std::size_t i = 0; i < x.size(); ++i)
    moved.push_back(double{x[i]} + double{b[i % kColumns]});
  EXPECT_LT(relative_error(values(y), moved), tolerance());
}

class TokenMasks : public Transformer {
 protected:
  static constexpr std::int64_t kBatch = 3, kTokens = 50, kKept = 41, kWidth = 9;

  std::vector<std::int64_t> choose(const TokenMask& mask) {
    ops_->choose_tokens(places_, mask);
    std::vector<std::int64_t> places(kBatch * kTokens);
    ops_->copy_to_host(places.data(), places_);
    return places;
  }

  OwnedTensor places_;
  void SetUp() override {
    Transformer::SetUp();
    if (ops_) places_ = OwnedTensor(*ops_, {kBatch, kTokens}, DType::kInt64);
  }
};

TEST_P(TokenMasks, KeepTheTokensWithTheSmallestNumbers) {
  const TokenMask mask{.kept = kKept, .seed = 5, .step = 7, .first_sample = 12};
  const std::vector<std::int64_t> places = choose(mask);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    float largest = 0, smallest = 1;
    std::int64_t kept = 0;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const float number = token_number(5, 7, static_cast<std::uint64_t>((12 + b) * kTokens + t));
      const std::int64_t place = places[static_cast<std::size_t>(b * kTokens + t)];
      if (place >= 0) {
        EXPECT_EQ(place, kept++);
        largest = std::max(largest, number);
      } else {
        smallest = std::min(smallest, number);
      }
    }
    EXPECT_EQ(kept, kKept);
    EXPECT_LT(largest, smallest);
  }
  EXPECT_EQ(choose(mask), places);
  EXPECT_NE(choose({.kept = kKept, .seed = 5, .step = 8, .first_sample = 12}), places);
}

TEST_P(TokenMasks, GatherAndScatterTokens) {
  const std::vector<std::int64_t> places = choose({.kept = kKept});
  const std::vector<float> x = rounded(random(kBatch * kTokens * kWidth)),
                           fill = rounded(random(kWidth));
  const OwnedTensor all = activations({kBatch, kTokens, kWidth}, x),
                    kept = activations({kBatch, kKept, kWidth}),
                    token = activations({kWidth}, fill), sums = tensor({kWidth});
  ops_->keep_tokens(all, places_, kept);
  ops_->column_sums(all, sums, false, places_);
  ops_->restore_tokens(kept, places_, token, all);
  const std::vector<float> filled = values(all);
  ops_->restore_tokens(kept, places_, {}, all);
  const std::vector<float> with_zeros = values(all);
  Doubles expected_sums(kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool is_kept = places[i / kWidth] >= 0;
    EXPECT_EQ(filled[i], is_kept ? x[i] : fill[i % kWidth]);
    EXPECT_EQ(with_zeros[i], is_kept ? x[i] : 0);
    if (!is_kept) expected_sums[i % kWidth] += double{x[i]};
  }
  EXPECT_LT(relative_error(values(sums), expected_sums), 1e-6);
}

TEST_P(TokenMasks, DropPathGivesAllElementsOfASampleTheSameFactor) {
  constexpr std::int64_t kSamples = 200, kGroup = 130;
  const std::vector<float> x = random(kSamples * kGroup);
  const OwnedTensor from = tensor({kSamples * kGroup}, x), to = tensor({kSamples * kGroup});
  ops_->dropout(from, to,
                {.probability = 0.3f, .seed = 3, .step = 2, .first_element = 9, .group = kGroup});
  const std::vector<float> y = values(to);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], x[i] * dropout_factor(0.3f, 3, 2, 9 + i / kGroup));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Transformer, ::testing::ValuesIn(test_devices()), device_name);
INSTANTIATE_TEST_SUITE_P(Kernels, TokenMasks, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
