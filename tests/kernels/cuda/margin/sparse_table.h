// A sparse table of class centres, in which only a few rows use memory, and training steps on it.
// For tests of the GPU's margin softmax.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/cuda_call.h"
#include "kernels/make_ops.h"
#include "kernels/margin/margin_softmax.h"
#include "tests/support/device_values.h"

namespace pfc {

inline constexpr std::int64_t kEmbeddingSize = 512;
inline constexpr std::int64_t kBatchSize = 3;

/// Memory of any size that the host and the GPU may access in turn. Only written pages use space.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) {
    cuda_check(cudaMallocManaged(&data_, bytes), "cudaMallocManaged");
  }
  SparseMemory(const SparseMemory&) = delete;
  ~SparseMemory() { static_cast<void>(cudaFree(data_)); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// A table in sparse memory. The host may access it between steps.
class SparseTable {
 public:
  explicit SparseTable(std::int64_t rows, std::int64_t sub_centres = 1)
      : rows_(rows),
        sub_centres_(sub_centres),
        weight_(bytes()),
        momentum_(bytes()),
        inverse_norm_(count() * static_cast<std::size_t>(sub_centres) * sizeof(float)),
        updated_(count() * sizeof(std::int32_t)) {}

  [[nodiscard]] CentreTable view() const {
    const Shape shape{rows_, sub_centres_ * kEmbeddingSize};
    return {.first_class = 0,
            .weight = {weight_.data(), DType::kFloat32, shape},
            .inverse_norm = {inverse_norm_.data(), DType::kFloat32, {rows_ * sub_centres_}},
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
  /// Fills row i with random numbers.
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
  [[nodiscard]] std::size_t bytes() const {
    return count() * static_cast<std::size_t>(sub_centres_) * kEmbeddingSize * sizeof(float);
  }

  const std::int64_t rows_, sub_centres_;
  const SparseMemory weight_, momentum_, inverse_norm_, updated_;
  const std::unique_ptr<UpdateHistory> history_ =
      std::make_unique<UpdateHistory>(OptimizerKind::kSgd);
};

class CudaMarginSoftmax : public ::testing::Test {
 protected:
  void SetUp() override {
    const DeviceInfo gpu = cuda_devices().front();
    if (!gpu.available) GTEST_SKIP() << "no GPU: " << gpu.detail;
    ops_ = make_cuda_ops({});
  }

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

  /// Runs one step in which these classes are active. The contents of their rows do not depend on
  /// the numbers of the classes.
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
    Outcome outcome{.loss = softmax->combine(statistics), .d_embeddings = {}};
    if (gradients) {
      softmax->backward_accumulate(1.0, d_x, gradients, slots);
      softmax->update(classes, slots, gradients, {});
    } else {
      softmax->backward(1.0, d_x, {});
    }
    outcome.d_embeddings = to_host(*ops_, d_x);
    ops_->synchronize();
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
  std::unique_ptr<Ops> ops_;
};

}  // namespace pfc
