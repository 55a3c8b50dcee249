// Compares the products of a tile, for every kind and instruction set, with sums in float64.
#include "kernels/cpu/margin/tile_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/runtime/aligned_vector.h"
#include "kernels/math/bfloat16.h"

namespace pfc {
namespace {

struct Kind {
  std::string name;
  std::function<std::unique_ptr<TileProducts>()> make;
};

std::vector<Kind> kinds() {
  std::vector<Kind> found;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::string name = kernels->name;
    std::erase_if(name, [](char c) { return !std::isalnum(c); });
    found.push_back({"Float" + name, [kernels] { return make_float_tile_products(*kernels); }});
    if (kernels->bfloat16_product == nullptr) continue;
    found.push_back(
        {"Half" + name, [kernels] { return make_vector_bfloat16_tile_products(*kernels); }});
    found.push_back({"HalfDnnl", [] { return make_dnnl_tile_products(); }});
  }
  return found;
}

struct Sizes {
  std::int64_t samples, dimension, classes;
};
// Sizes of 1; sizes with remainders after vectors, panels, blocks of rows and blocks of depth;
// sizes without remainders; and so many embeddings that several threads pack them.
constexpr Sizes kSizes[] = {{1, 1, 1},     {7, 20, 5},    {66, 33, 95},  {130, 70, 96},
                            {17, 300, 25}, {128, 64, 48}, {35, 129, 90}, {200, 300, 25}};

class TileProductsOfAKind : public ::testing::TestWithParam<std::tuple<Kind, Sizes>> {
 protected:
  void SetUp() override {
    products_ = std::get<0>(GetParam()).make();
    half_ = products_->row_type() == DType::kBFloat16;
    unit_ = numbers(n_ * d_, 1);
    rows_ = numbers(c_ * d_, 2);
    factors_ = numbers(c_ * n_, 3);
    products_->set_embeddings(unit_.data(), n_, d_, 3);
    const std::int64_t stride = tile_row_stride(d_);
    floats_.resize(static_cast<std::size_t>(kTileRows * stride));
    halves_.resize(floats_.size());
    for (std::int64_t c = 0; c < c_; ++c) {
      for (std::int64_t i = 0; i < d_; ++i) {
        const auto to = static_cast<std::size_t>(c * stride + i);
        floats_[to] = rows_[static_cast<std::size_t>(c * d_ + i)];
        halves_[to] = nearest_bfloat16(floats_[to]);
      }
    }
    tile_.resize(static_cast<std::size_t>(kTileRows * n_));
    std::copy(factors_.begin(), factors_.end(), tile_.begin());
  }

  /// Returns random numbers, representable in bfloat16 if the products read that.
  [[nodiscard]] std::vector<float> numbers(std::int64_t count, unsigned seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(count));
    for (float& value : x) {
      value = normal(generator);
      if (half_) value = float_of(nearest_bfloat16(value));
    }
    return x;
  }

  [[nodiscard]] const void* rows() const {
    return half_ ? static_cast<const void*>(halves_.data()) : floats_.data();
  }

  /// Expects that m [rows, columns] contains the sums over k < depth of term(row, column, k).
  template <typename Term>
  static void expect_sums(const float* m, std::int64_t rows, std::int64_t columns,
                          std::int64_t depth, const Term& term) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double want = 0, size = 1e-30;
        for (std::int64_t k = 0; k < depth; ++k) {
          const double part = term(r, j, k);
          want += part;
          size += std::abs(part);
        }
        ASSERT_NEAR(double{m[r * columns + j]}, want, 1e-6 * size) << r << ' ' << j;
      }
    }
  }
  static double at(const std::vector<float>& m, std::int64_t columns, std::int64_t row,
                   std::int64_t column) {
    return double{m[static_cast<std::size_t>(row * columns + column)]};
  }

  const Sizes sizes_ = std::get<1>(GetParam());
  const std::int64_t n_ = sizes_.samples, d_ = sizes_.dimension, c_ = sizes_.classes;
  std::unique_ptr<TileProducts> products_;
  bool half_ = false;
  std::vector<float> unit_, rows_, factors_;  // [N, D], [classes, D], [classes, N]
  AlignedVector<float> floats_, tile_;
  AlignedVector<BFloat16> halves_;
  PrefetchList nothing_;
};

TEST_P(TileProductsOfAKind, MultiplyRowsWithEmbeddings) {
  AlignedVector<float> out(static_cast<std::size_t>(kTileRows * n_));
  ASSERT_TRUE(products_->forward(0, rows(), c_, out.data(), nothing_));
  expect_sums(out.data(), c_, n_, d_, [&](std::int64_t c, std::int64_t s, std::int64_t k) {
    return at(rows_, d_, c, k) * at(unit_, d_, s, k);
  });
}

TEST_P(TileProductsOfAKind, AddTheEmbeddingsGradients) {
  std::vector<float> d_unit(static_cast<std::size_t>(n_ * d_), 1.f);
  products_->set_factors(0, tile_.data(), c_);
  ASSERT_TRUE(products_->add_embedding_gradients(0, rows(), d_unit.data(), nothing_));
  expect_sums(d_unit.data(), n_, d_, c_ + 1, [&](std::int64_t s, std::int64_t i, std::int64_t c) {
    return c == c_ ? 1.0 : at(factors_, n_, c, s) * at(rows_, d_, c, i);
  });
}

TEST_P(TileProductsOfAKind, ComputeTheCentresGradientsInParts) {
  AlignedVector<float> out(static_cast<std::size_t>(kGradientRows * d_));
  products_->set_factors(0, tile_.data(), c_);
  for (std::int64_t first = 0; first < c_; first += kGradientRows) {
    const std::int64_t count = std::min(kGradientRows, c_ - first);
    ASSERT_TRUE(products_->centre_gradients(0, first, count, out.data(), nothing_));
    expect_sums(out.data(), count, d_, n_, [&](std::int64_t c, std::int64_t i, std::int64_t s) {
      return at(factors_, n_, first + c, s) * at(unit_, d_, s, i);
    });
  }
}

// Some stretches end between two steps, and some between two products.
TEST_P(TileProductsOfAKind, ComputeTheSameWithPrefetching) {
  const std::vector<char> memory(5000);
  const std::vector<Stretch> stretches{
      {memory.data(), 100}, {memory.data() + 100, 1}, {memory.data() + 101, 4899}};
  const std::int64_t steps = products_->prefetch_steps(c_);
  if (steps == 0) GTEST_SKIP() << "no prefetching: too small, or computed by oneDNN";
  PrefetchList soon{.next = stretches.data(),
                    .end = stretches.data() + stretches.size(),
                    .step = 5000 / steps + 1};
  AlignedVector<float> want(static_cast<std::size_t>(kTileRows * n_)), got(want.size());
  products_->forward(0, rows(), c_, want.data(), nothing_);
  products_->forward(0, rows(), c_, got.data(), soon);
  EXPECT_EQ(got, want);
  // Two stretches are done, because the last step of each stretch is rounded up.
  EXPECT_GE(soon.next, stretches.data() + 2);
}

std::string kind_and_sizes_name(const ::testing::TestParamInfo<std::tuple<Kind, Sizes>>& test) {
  const auto& [kind, size] = test.param;
  return kind.name + "N" + std::to_string(size.samples) + "D" + std::to_string(size.dimension) +
         "C" + std::to_string(size.classes);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TileProductsOfAKind,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::ValuesIn(kSizes)),
                         kind_and_sizes_name);

}  // namespace
}  // namespace pfc
