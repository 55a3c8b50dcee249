// Tests offsets beyond 2^31 in the table of class centres. The tests of the head check the
// arithmetic.
#include "tests/kernels/cuda/margin/sparse_table.h"

namespace pfc {
namespace {

constexpr std::int64_t kMany = 29'000'000;  // rows; with 512 columns 14.8e9 numbers

TEST_F(CudaMarginSoftmax, IsBitIdenticalForScatteredRowsAnywhereInTheTable) {
  const SparseTable small(16), large(kMany);
  const std::vector<std::int64_t> near{0, 1, 5, 9};
  const std::vector<std::int64_t> far{0, 4'194'305, kMany / 2, kMany - 1};
  const Outcome want = step(small, near), got = step(large, far);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.d_embeddings, want.d_embeddings);
  expect_equal_rows(large, far, small, near);
}

TEST_F(CudaMarginSoftmax, IsBitIdenticalForContiguousRowsAnywhereInTheTable) {
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
  const SparseMemory few(16 * kEmbeddingSize * sizeof(float));
  const SparseMemory many(std::size_t{kMany} * kEmbeddingSize * sizeof(float));
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

}  // namespace
}  // namespace pfc
