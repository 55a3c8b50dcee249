// Tests products of parts of wider matrices at any address, which Ops::gemm() does not cover. Uses
// the emulated GPU, which rejects the same arguments as cuBLASLt.

#include "kernels/cuda/libraries/cublas_lt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/device.h"

namespace pfc {
namespace {

class CublasLtProduct : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 5, kN = 7, kK = 11;
  static constexpr std::int64_t kWidth = 19;  // width of all three stored matrices

  void SetUp() override {
    const DeviceInfo gpu = cuda_devices().front();
    if (!gpu.available) GTEST_SKIP() << "no GPU: " << gpu.detail;
    device_.emplace(CudaOptions{});
    for (std::optional<CudaBuffer>* buffer : {&a_, &b_, &c_}) buffer->emplace(kBytes);
    device_->scratch.reserve(CublasLt::kWorkspaceBytes);
    std::normal_distribution<float> normal;
    for (float& v : host_) v = normal(generator_);
    upload(*a_);
    upload(*b_);
    upload(*c_);
  }

  void upload(const CudaBuffer& buffer) {
    cuda_check(cudaMemcpyAsync(const_cast<CudaBuffer&>(buffer).data(), host_.data(), kBytes,
                               cudaMemcpyHostToDevice, device_->compute.get()),
               "a copy");
  }
  float* at(CudaBuffer& buffer, std::int64_t first) {
    return reinterpret_cast<float*>(buffer.data()) + first;
  }

  // For each matrix of a product, the element of the wider matrix at which it starts.
  struct First {
    std::int64_t a = 0, b = 0, c = 0;
  };

  // Returns the largest error of a product, over all elements of the wider result matrix.
  double error_from(CublasLt& cublas, const First& first) {
    upload(*c_);
    cublas.multiply({.m = kM,
                     .n = kN,
                     .k = kK,
                     .transpose_b = true,
                     .a = at(*a_, first.a),
                     .a_stride = kWidth,
                     .b = at(*b_, first.b),
                     .b_stride = kWidth,
                     .c = at(*c_, first.c),
                     .c_stride = kWidth},
                    device_->scratch.data(), device_->compute.get());
    std::vector<float> found(host_.size());
    cuda_check(cudaMemcpyAsync(found.data(), c_->data(), kBytes, cudaMemcpyDeviceToHost,
                               device_->compute.get()),
               "a copy");
    device_->compute.synchronize();
    std::vector<double> expected(host_.begin(), host_.end());
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < kK; ++k) {
          sum += static_cast<double>(host_[index(first.a + i * kWidth + k)]) *
                 static_cast<double>(host_[index(first.b + j * kWidth + k)]);
        }
        expected[index(first.c + i * kWidth + j)] = sum;
      }
    }
    double most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(found[i]) - expected[i]));
    }
    return most;
  }

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  static constexpr std::size_t kElements = 16 * kWidth, kBytes = kElements * sizeof(float);
  std::mt19937_64 generator_{7};
  std::vector<float> host_ = std::vector<float>(kElements);
  std::optional<CudaDevice> device_;
  std::optional<CudaBuffer> a_, b_, c_;
};

TEST_F(CublasLtProduct, WritesOnlyItsPartOfWiderMatrices) {
  CublasLt cublas("GPU 0", false);
  EXPECT_LT(error_from(cublas, {}), 1e-5);
}

TEST_F(CublasLtProduct, SelectsAnotherAlgorithmForAnotherAlignment) {
  CublasLt cublas("GPU 0", false);
  for (const First& first : {First{0, 0, 0}, First{1, 1, 1}, First{4, 0, 0}, First{0, 1, 0},
                             First{0, 0, 2}, First{8, 1, 4}, First{0, 0, 0}}) {
    EXPECT_LT(error_from(cublas, first), 1e-5) << first.a << " " << first.b << " " << first.c;
  }
}

TEST_F(CublasLtProduct, RoundsItsInputsWithTf32) {
  CublasLt cublas("GPU 0", true);
  const double error = error_from(cublas, {});
  EXPECT_LT(error, 1e-2);
  EXPECT_GT(error, 1e-5);
}

TEST_F(CublasLtProduct, NamesAnImpossibleProductInTheError) {
  CublasLt cublas("GPU 3 (NVIDIA H100)", false);
  try {
    cublas.multiply({.m = 2,
                     .n = 3,
                     .k = 4,
                     .in = DType::kFloat32,
                     .out = DType::kBFloat16,
                     .a = a_->data(),
                     .a_stride = 4,
                     .b = b_->data(),
                     .b_stride = 3,
                     .c = c_->data(),
                     .c_stride = 3},
                    device_->scratch.data(), device_->compute.get());
    FAIL() << "no error was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("GPU 3 (NVIDIA H100)"),
                                               ::testing::HasSubstr("2 x 3 x 4 (NN, fp32 to bf16)"),
                                               ::testing::HasSubstr("NOT_SUPPORTED")));
  }
}

}  // namespace
}  // namespace pfc
