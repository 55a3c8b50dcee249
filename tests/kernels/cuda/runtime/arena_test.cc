// Tests memory reserved by the Ops of a GPU.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/scratch.h"

namespace pfc {
namespace {

class ReservedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
    ops_ = make_cuda_ops({});
    before_ = ops_->memory().free;
  }
  std::unique_ptr<Ops> ops_;
  std::size_t before_ = 0;
};

TEST_F(ReservedMemory, IsAllocatedAtOnceForAllBuffers) {
  ops_->reserve(10 << 20);
  const std::size_t after = ops_->memory().free;
  EXPECT_LE(after, before_ - (10 << 20));
  const auto a = ops_->allocate(3 << 20), b = ops_->allocate(4 << 20), c = ops_->allocate(1000);
  EXPECT_EQ(ops_->memory().free, after);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c->data()) % 64, 0u);
}

TEST_F(ReservedMemory, ProvidesZeroedBuffersThatDoNotOverlap) {
  ops_->reserve(1 << 20);
  std::mt19937 random(7);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < 150; ++i) {
    if (buffers.size() > 12 || (random() % 3 == 0 && !buffers.empty())) {
      std::swap(buffers[random() % buffers.size()], buffers.back());
      buffers.pop_back();
      continue;
    }
    const std::size_t bytes = random() % 20'000 + 1;
    buffers.push_back(ops_->allocate(bytes));
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
    const Tensor floats(buffers.back()->data(), DType::kFloat32, {elements});
    EXPECT_EQ(ops_->sum_of_squares(floats), 0);
    ops_->fill(floats, 1.f);
    for (const auto& buffer : buffers) {
      if (buffer == buffers.back()) continue;
      EXPECT_TRUE(buffer->data() + buffer->bytes() <= buffers.back()->data() ||
                  buffers.back()->data() + bytes <= buffer->data());
    }
  }
}

TEST_F(ReservedMemory, IsMergedWhenBuffersAreFreed) {
  ops_->reserve(1 << 20);
  const std::size_t after = ops_->memory().free;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(ops_->allocate(1 << 17));
  for (const int i : {3, 0, 7, 4, 1, 6, 2, 5}) buffers[static_cast<std::size_t>(i)].reset();
  const auto all = ops_->allocate(1 << 20);
  EXPECT_EQ(ops_->memory().free, after);
}

TEST_F(ReservedMemory, FitsExactlyTheCountedBuffers) {
  constexpr std::size_t kBufferBytes[] = {1, 513, 1000};
  std::size_t sum = 0;
  for (const std::size_t bytes : kBufferBytes) sum += gpu_allocation(bytes);
  ops_->reserve(sum);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const std::size_t bytes : kBufferBytes) buffers.push_back(ops_->allocate(bytes));
  EXPECT_EQ(buffers.front()->data() + sum, buffers.back()->data() + gpu_allocation(1000));
}

TEST_F(ReservedMemory, IsRejectedIfTheGpuHasLess) {
  EXPECT_THROW(ops_->reserve(ops_->memory().total + 1), DeviceError);
}

}  // namespace
}  // namespace pfc
