// Tests copying batches to a GPU. The emulated GPU runs streams as late as possible, so if streams
// are not ordered as necessary, a copy or a read sees the images of another batch.
#include "worker/input/image_upload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <semaphore>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/scratch.h"

namespace pfc {
namespace {

const Shape kShape{2, 3, 5, 3};

std::vector<std::uint8_t> batch_of(std::uint8_t pixel) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(kShape.elements()), pixel);
}

class UploadOfImages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
    ops_ = make_cuda_ops({});
    upload_ = std::make_unique<ImageUpload>(*ops_, kShape);
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ImageUpload> upload_;
};

TEST_F(UploadOfImages, UsesTheStatedGpuMemory) {
  const Shape large{4, 512, 512, 3};
  const std::size_t slot = ImageUpload::bytes(large) / ImageUpload::kSlots;
  ops_->reserve(ImageUpload::kSlots * gpu_allocation(slot));
  const std::size_t before = ops_->memory().free;
  const ImageUpload upload(*ops_, large);
  EXPECT_EQ(ops_->memory().free, before);
}

TEST_F(UploadOfImages, ProvidesEachStepItsOwnBatch) {
  constexpr std::uint8_t kBatches = 9;
  std::vector<std::vector<std::uint8_t>> batches;
  for (std::uint8_t i = 0; i < kBatches; ++i) batches.push_back(batch_of(i));
  std::counting_semaphore ready(0);
  std::thread inputs([&] {
    for (std::vector<std::uint8_t>& batch : batches) {
      upload_->put(batch);
      std::ranges::fill(batch, std::uint8_t{255});  // the caller may change the batch now
      ready.release();
    }
  });
  // The images of all steps are compared after the last step, so that nothing waits before.
  const std::size_t bytes = static_cast<std::size_t>(kShape.elements()) * sizeof(float);
  std::vector<std::unique_ptr<Buffer>> steps;
  for (std::uint8_t i = 0; i < kBatches; ++i) {
    ready.acquire();
    steps.push_back(ops_->allocate(bytes));
    ops_->normalise_images(upload_->take(), {steps.back()->data(), DType::kFloat32, kShape});
    upload_->release();
  }
  inputs.join();
  for (std::uint8_t i = 0; i < kBatches; ++i) {
    std::vector<float> found(static_cast<std::size_t>(kShape.elements()));
    ops_->copy_to_host(found.data(), {steps[i]->data(), DType::kFloat32, kShape});
    const float pixel = static_cast<float>(i) / 127.5f - 1.f;
    for (const float x : found) ASSERT_NEAR(x, pixel, 1e-6f) << "batch " << int{i};
  }
}

TEST_F(UploadOfImages, CloseEndsAWaitingPut) {
  std::thread inputs([&] {
    for (int i = 0; i < 5; ++i) upload_->put(batch_of(0));
  });
  upload_->close();
  inputs.join();
}

TEST_F(UploadOfImages, RejectsABatchOfAnotherShape) {
  EXPECT_THROW(upload_->put({}), std::logic_error);
}

}  // namespace
}  // namespace pfc
