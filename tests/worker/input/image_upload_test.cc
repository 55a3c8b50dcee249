// The way of batches to the device: on a CPU, and on an emulated GPU whose streams run as late as
// they may, so that a copy or a read that is not ordered meets other images.
#include "worker/input/image_upload.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

#include "kernels/cuda/cuda_device.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

const Shape kShape{2, 3, 5, 3};

Batch batch_of(std::uint8_t pixel) {
  Batch batch;
  batch.images.assign(static_cast<std::size_t>(kShape.elements()), pixel);
  return batch;
}

class UploadOfImages : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const bool gpu = GetParam();
    if (gpu && !cuda_devices().front().available) GTEST_SKIP() << cuda_devices().front().detail;
    ops_ = gpu ? make_cuda_ops({}) : make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
    upload_ = std::make_unique<ImageUpload>(*ops_, kShape);
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ImageUpload> upload_;
};

TEST_P(UploadOfImages, TakesTheGpuMemoryThatItStates) {
  if (ops_->on_host()) return;  // nothing is copied there
  const Shape large{4, 64, 64, 3};
  const std::size_t before = ops_->memory().free;
  const ImageUpload upload(*ops_, large);
  EXPECT_EQ(before - ops_->memory().free, ImageUpload::bytes(large));
}

TEST_P(UploadOfImages, GivesEveryStepItsOwnBatch) {
  constexpr std::uint8_t kBatches = 9;
  std::vector<Batch> batches;
  for (std::uint8_t i = 0; i < kBatches; ++i) batches.push_back(batch_of(i));
  std::counting_semaphore ready(0);
  std::thread inputs([&] {
    for (Batch& batch : batches) {
      upload_->put(batch);
      if (!ops_->on_host()) std::ranges::fill(batch.images, std::uint8_t{255});  // it may be
      ready.release();
    }
  });
  // Every step's images as numbers, all looked at after the last step: nothing waits before.
  const std::size_t bytes = static_cast<std::size_t>(kShape.elements()) * sizeof(float);
  std::vector<std::unique_ptr<Buffer>> steps;
  for (std::uint8_t i = 0; i < kBatches; ++i) {
    ready.acquire();
    steps.push_back(ops_->allocate(bytes));
    ops_->normalise_images(upload_->take(batches[i]),
                           {steps.back()->data(), DType::kFloat32, kShape});
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

TEST_P(UploadOfImages, EndsWhileSomebodyWaitsToPut) {
  std::thread inputs([&] {
    for (int i = 0; i < 5; ++i) upload_->put(batch_of(0));
  });
  upload_->close();
  inputs.join();
}

TEST_P(UploadOfImages, RefusesABatchOfAnotherShape) {
  EXPECT_THROW(upload_->take({}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Devices, UploadOfImages, ::testing::Values(false, true),
                         [](const auto& device) { return device.param ? "EmulatedGpu" : "Cpu"; });

}  // namespace
}  // namespace pfc
