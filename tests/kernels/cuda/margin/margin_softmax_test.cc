// Tests what is particular to the margin softmax on a GPU: offsets beyond 2^31, which calls wait,
// and how much memory it takes. The tests of the head check its arithmetic.
#include "kernels/margin/margin_softmax.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/margin/margin_plan.h"
#include "kernels/make_ops.h"
#include "tests/kernels/on_each_device.h"
#include "tests/support/simt/memory.h"

namespace pfc {
namespace {

constexpr std::int64_t kEmbeddingSize = 512;
constexpr std::int64_t kBatchSize = 3;

/// A table in sparse memory: only rows that are used take room. The host may access them between
/// steps.
class SparseTable {
 public:
  explicit SparseTable(std::int64_t rows)
      : rows_(rows),
        weight_(bytes()),
        momentum_(bytes()),
        inverse_norm_(count() * sizeof(float)),
        updated_(count() * sizeof(std::int32_t)) {}

  [[nodiscard]] CentreTable view() const {
    const Shape shape{rows_, kEmbeddingSize};
    return {.first_class = 0,
            .weight = {weight_.data(), DType::kFloat32, shape},
            .inverse_norm = {inverse_norm_.data(), DType::kFloat32, {rows_}},
            .momentum = {momentum_.data(), DType::kFloat32, shape},
            .second = {},
            .updated = {static_cast<std::int32_t*>(updated_.data()), count()},
            .history = history_.get()};
  }
  [[nodiscard]] float* row(std::int64_t i) const {
    return view().weight.f32() + i * kEmbeddingSize;
  }
  [[nodiscard]] float* velocity(std::int64_t i) const {
    return view().momentum.f32() + i * kEmbeddingSize;
  }
  /// Whether row i holds the same numbers as row j of another table.
  void fill_row(std::int64_t i, unsigned seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.f, 0.05f);
    double squares = 0;
    for (std::int64_t k = 0; k < kEmbeddingSize; ++k) {
      const float x = row(i)[k] = normal(generator);
      velocity(i)[k] = normal(generator);
      squares += double{x} * double{x};
    }
    view().inverse_norm.f32()[i] = static_cast<float>(1 / std::sqrt(squares));
  }

 private:
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows_); }
  [[nodiscard]] std::size_t bytes() const { return count() * kEmbeddingSize * sizeof(float); }

  const std::int64_t rows_;
  const simt::SparseMemory weight_, momentum_, inverse_norm_, updated_;
  const std::unique_ptr<UpdateHistory> history_ =
      std::make_unique<UpdateHistory>(OptimizerKind::kSgd);
};

class CudaMarginSoftmax : public ::testing::Test {
 protected:
  struct Outcome {
    double loss = 0;
    std::vector<float> d_embeddings;
  };

  [[nodiscard]] OwnedTensor embeddings() const {
    std::mt19937 generator(4);
    std::normal_distribution<float> normal;
    std::vector<float> x(kBatchSize * kEmbeddingSize);
    for (float& value : x) value = normal(generator);
    return to_device(*ops_, {kBatchSize, kEmbeddingSize}, x);
  }

  /// Runs one step with the active classes `classes`. The contents of their rows do not depend on
  /// the class numbers.
  Outcome step(const SparseTable& table, const std::vector<std::int64_t>& classes,
               const Tensor& gradients = {}, const std::vector<std::int64_t>& slots = {}) {
    for (std::size_t i = 0; i < classes.size(); ++i) {
      table.fill_row(classes[i], static_cast<unsigned>(i));
    }
    const auto last = static_cast<std::int64_t>(classes.size()) - 1;
    const std::vector<Positive> positives{{.index = 1, .sample = 2}, {.index = last, .sample = 0}};
    const auto softmax = make_margin_softmax(*ops_, options_, table.view());
    const OwnedTensor x = embeddings(), d_x(*ops_, {kBatchSize, kEmbeddingSize});
    const OwnedTensor statistics(*ops_, {kBatchSize, sizeof(RowStatistics)}, DType::kUInt8);
    softmax->forward({.embeddings = x, .classes = classes, .positives = positives}, statistics);
    Outcome outcome{.loss = softmax->combine(statistics, 1), .d_embeddings = {}};
    if (gradients) {
      softmax->backward_accumulate(1.0, d_x, gradients, slots);
      softmax->update(classes, slots, gradients, {});
    } else {
      softmax->backward(1.0, d_x, {});
    }
    outcome.d_embeddings = to_host(*ops_, d_x);
    return outcome;
  }

  static void expect_equal_rows(const SparseTable& a, const std::vector<std::int64_t>& of_a,
                                const SparseTable& b, const std::vector<std::int64_t>& of_b) {
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      for (std::int64_t k = 0; k < kEmbeddingSize; ++k) {
        ASSERT_EQ(a.row(of_a[i])[k], b.row(of_b[i])[k]) << i << "," << k;
        ASSERT_EQ(a.velocity(of_a[i])[k], b.velocity(of_b[i])[k]) << i << "," << k;
      }
      ASSERT_EQ(a.view().inverse_norm.f32()[of_a[i]], b.view().inverse_norm.f32()[of_b[i]]);
    }
  }
  static std::vector<std::int64_t> range(std::int64_t begin, std::int64_t count) {
    std::vector<std::int64_t> classes(static_cast<std::size_t>(count));
    std::iota(classes.begin(), classes.end(), begin);
    return classes;
  }

  MarginSoftmaxOptions options_{.scale = 16};
  const std::unique_ptr<Ops> ops_ = make_cuda_ops({});
};

constexpr std::int64_t kMany = 29'000'000;  // rows; with 512 columns 14.8e9 numbers

TEST_F(CudaMarginSoftmax, GivesTheSameBitsForScatteredRowsAnywhereInTheTable) {
  const SparseTable small(16), large(kMany);
  const std::vector<std::int64_t> near{0, 1, 5, 9};
  const std::vector<std::int64_t> far{0, 4'194'305, kMany / 2, kMany - 1};
  const Outcome want = step(small, near), got = step(large, far);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.d_embeddings, want.d_embeddings);
  expect_equal_rows(large, far, small, near);
}

TEST_F(CudaMarginSoftmax, GivesTheSameBitsForContiguousRowsAnywhereInTheTable) {
  const SparseTable small(300), large(kMany);
  const std::vector<std::int64_t> near = range(0, 300), far = range(kMany - 300, 300);
  const Outcome want = step(small, near), got = step(large, far);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.d_embeddings, want.d_embeddings);
  expect_equal_rows(large, far, small, near);
}

TEST_F(CudaMarginSoftmax, AddsGradientsToTheirSlots) {
  const SparseTable small(16), large(kMany);
  const std::vector<std::int64_t> near{0, 1, 5, 9};
  const std::vector<std::int64_t> far{0, 4'194'305, kMany / 2, kMany - 1};
  const simt::SparseMemory few(16 * kEmbeddingSize * sizeof(float));
  const simt::SparseMemory many(std::size_t{kMany} * kEmbeddingSize * sizeof(float));
  const Outcome want =
      step(small, near, {few.data(), DType::kFloat32, {16, kEmbeddingSize}}, {3, 0, 2, 1});
  const Outcome got = step(large, far, {many.data(), DType::kFloat32, {kMany, kEmbeddingSize}},
                           {5'000'000, 0, kMany - 1, 4'194'304});
  EXPECT_EQ(got.loss, want.loss);
  expect_equal_rows(large, far, small, near);
}

TEST_F(CudaMarginSoftmax, RejectsATableOfTooManyRows) {
  const SparseTable one(1);
  CentreTable table = one.view();
  constexpr std::int64_t kRows = std::int64_t{1} << 31;
  table.weight.shape = table.momentum.shape = Shape{kRows, 1};
  table.inverse_norm.shape = Shape{kRows};
  table.updated = {table.updated.data(), std::size_t{kRows}};
  EXPECT_THROW(make_margin_softmax(*ops_, options_, table), InputError);
}

TEST_F(CudaMarginSoftmax, WaitsOnlyForTheLoss) {
  const SparseTable table(300);
  const std::vector<std::int64_t> classes = range(0, 300);
  for (const std::int64_t c : classes) table.fill_row(c, static_cast<unsigned>(c));
  const std::vector<Positive> positives{{.index = 7, .sample = 1}};
  const auto softmax = make_margin_softmax(*ops_, options_, table.view());
  const OwnedTensor x = embeddings();
  const simt::SparseMemory d_x(kBatchSize * kEmbeddingSize * sizeof(float));
  const simt::SparseMemory rows(kBatchSize * sizeof(RowStatistics));
  const Tensor statistics(rows.data(), DType::kUInt8, {kBatchSize, sizeof(RowStatistics)});
  const auto* const sum = &static_cast<const RowStatistics*>(rows.data())->sum;
  const auto* const gradient = static_cast<const float*>(d_x.data());
  ops_->synchronize();
  for (int i = 0; i < 3; ++i) {  // the first step allocates memory, which waits
    const double sum_before = *sum;
    const float gradient_before = gradient[0], row_before = table.row(5)[0];
    softmax->forward({.embeddings = x, .classes = classes, .positives = positives}, statistics);
    if (i > 0) {
      EXPECT_EQ(*sum, sum_before);
    }
    softmax->combine(statistics, 1);
    EXPECT_NE(*sum, sum_before);
    softmax->backward(1.0, Tensor(d_x.data(), DType::kFloat32, {kBatchSize, kEmbeddingSize}), {});
    EXPECT_EQ(gradient[0], gradient_before);
    EXPECT_EQ(table.row(5)[0], row_before);
    ops_->synchronize();
    EXPECT_NE(gradient[0], gradient_before);
    EXPECT_NE(table.row(5)[0], row_before);
  }
}

TEST_F(CudaMarginSoftmax, AllocatesAsMuchMemoryAsPlanned) {
  for (const bool halves : {false, true}) {
    options_.bf16_products = halves;
    options_.logits_bytes = 200'000;
    const SparseTable table(1000);
    const std::vector<std::int64_t> classes = range(100, 700);
    const std::size_t before = simt::device_memory().free;
    std::size_t step_memory = 0;
    {
      const auto softmax = make_margin_softmax(*ops_, options_, table.view());
      const OwnedTensor x = embeddings();
      const OwnedTensor statistics(*ops_, {kBatchSize, sizeof(RowStatistics)}, DType::kUInt8);
      const std::size_t begun = simt::device_memory().free;
      softmax->forward({.embeddings = x, .classes = classes, .positives = {}}, statistics);
      step_memory = begun - simt::device_memory().free;
      softmax->combine(statistics, 1);
    }
    EXPECT_EQ(simt::device_memory().free, before);
    const auto planned = static_cast<std::size_t>(margin_device_bytes({.samples = kBatchSize,
                                                                       .dimension = kEmbeddingSize,
                                                                       .bf16_products = halves,
                                                                       .l2_bytes = 1 << 16,
                                                                       .multiprocessors = 2},
                                                                      700, options_.logits_bytes));
    EXPECT_LE(step_memory, planned);
    EXPECT_GT(step_memory, planned * 9 / 10);
  }
}

TEST_F(CudaMarginSoftmax, AllocatesItsListsOfRangesAsPlanned) {
  options_.ranges = true;
  constexpr std::int64_t kRanged = 4096, kClasses = 64;
  const SparseTable table(kRanged);
  const std::vector<std::int64_t> classes = range(0, kClasses);
  const std::vector<ActiveRange> ranges(kRanged, {0, 32});
  std::vector<Positive> positives;
  for (std::int64_t i = 0; i < kRanged; ++i)
    positives.push_back({.index = i / kClasses, .sample = i});
  const auto softmax = make_margin_softmax(*ops_, options_, table.view());
  const OwnedTensor x(*ops_, {kRanged, kEmbeddingSize});
  const OwnedTensor statistics(*ops_, {kRanged, sizeof(RowStatistics)}, DType::kUInt8);
  const std::size_t begun = simt::device_memory().free;
  softmax->forward({.embeddings = x, .classes = classes, .positives = positives, .ranges = ranges},
                   statistics);
  const std::size_t lists_and_tiles = begun - simt::device_memory().free;
  const MarginPlanOptions plan{.samples = kRanged,
                               .dimension = kEmbeddingSize,
                               .ranges = true,
                               .l2_bytes = 1 << 16,
                               .multiprocessors = 2};
  constexpr std::size_t kMissed = 64;  // at most, for the one number of missed updates
  EXPECT_LE(lists_and_tiles,
            static_cast<std::size_t>(margin_device_bytes(plan, kClasses, 0)) + kMissed);
}

TEST(MarginPlan, FitsATileIntoTheCache) {
  const MarginPlanOptions h100{.samples = 1024,
                               .dimension = 512,
                               .bf16_products = true,
                               .l2_bytes = 50 << 20,
                               .multiprocessors = 132};
  const MarginPlan plan(h100);
  EXPECT_EQ(plan.tile, 4224);
  EXPECT_EQ(plan.slots, 66);
  EXPECT_LT(plan.tile * (1024 * 6 + 512 * 6), h100.l2_bytes * 3 / 4);
  MarginPlanOptions other = h100;
  other.samples = 65536;  // no tile fits the cache, so the plan takes the smallest one
  EXPECT_EQ(MarginPlan(other).tile, 128);
  other.samples = 9;
  other.dimension = 3;
  EXPECT_EQ(MarginPlan(other).padded_samples, 16);
  EXPECT_EQ(MarginPlan(other).padded_dimension, 8);
}

}  // namespace
}  // namespace pfc
