// The reducer of a GPU, on emulated ones: their streams run as late as they may, so that a stream
// that is not ordered behind another meets numbers that are not there yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "tests/support/error_message.h"
#include "tests/worker/comm/ranks.h"
#include "worker/gradients/make_grad_reducer.h"

namespace pfc {
namespace {

constexpr std::int64_t kCount = 1000;

struct Worker {
  int rank;
  Ops& ops;
  Comm& comm;
  Comm& gradient_comm;
  GradReducer& reducer;
  Tensor gradients;  // [kCount]
};

void on_workers(int world_size, std::chrono::milliseconds timeout,
                const std::function<void(Worker)>& work) {
  MemoryStore store;
  const Transport nccl = transports().back();
  on_threads(world_size, [&](int rank) {
    const auto ops = nccl.make_ops(rank);
    CommOptions options = options_of(rank, world_size);
    options.timeout = timeout;
    const DeviceComms comms = make_device_comms(*ops, options, &store);
    const auto memory = ops->allocate(kCount * sizeof(float));
    const Tensor gradients(memory->data(), DType::kFloat32, {kCount});
    const auto reducer =
        make_grad_reducer(*ops, *comms.gradients, gradients, {.bucket_bytes = 4 * 64});
    work({rank, *ops, *comms.step, *comms.gradients, *reducer, gradients});
  });
}

/// The gradient of element i that a rank makes in a step.
float gradient(int rank, int step, std::int64_t i) {
  return static_cast<float>(i % 97 + 10 * step + 1000 * rank);
}

/// As a backward pass: writes the gradients from the end, in pieces of any size.
void backward(const Worker& w, int step, std::mt19937& random) {
  for (std::int64_t offset = kCount; offset > 0;) {
    const std::int64_t count = std::min<std::int64_t>(offset, 1 + random() % 200);
    offset -= count;
    std::vector<float> values;
    for (std::int64_t i = offset; i < offset + count; ++i) {
      values.push_back(gradient(w.rank, step, i));
    }
    w.ops.copy_to_device({w.gradients.f32() + offset, Shape{count}}, values.data());
    w.reducer.ready(offset);
  }
}

class CudaReducer : public ::testing::TestWithParam<int> {};

TEST_P(CudaReducer, SumsWhatTheComputeStreamHasWrittenBeforeTheComputeStreamReadsIt) {
  const int world_size = GetParam();
  on_workers(world_size, std::chrono::seconds(60), [&](const Worker& w) {
    std::mt19937 random(static_cast<unsigned>(w.rank));  // paces differ, buckets do not
    for (int step = 0; step < 5; ++step) {
      backward(w, step, random);
      w.reducer.wait();
      // Either stream may be the first to run.
      if (step % 2 == 1) w.gradient_comm.barrier();
      std::vector<float> found(kCount);
      w.ops.copy_to_host(found.data(), w.gradients);
      w.comm.throw_if_failed();
      for (std::int64_t i = 0; i < kCount; ++i) {
        float sum = 0;
        for (int rank = 0; rank < world_size; ++rank) sum += gradient(rank, step, i);
        ASSERT_EQ(found[static_cast<std::size_t>(i)], sum) << "element " << i << ", step " << step;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, CudaReducer, ::testing::Values(1, 2, 3));

TEST(CudaReducerOfTwo, TheHostWaitsForNothing) {
  std::atomic<int> turns = 0;
  on_workers(2, std::chrono::seconds(60), [&](const Worker& w) {
    // One after the other: a host that waited would wait for ever.
    std::mt19937 random(1);
    while (turns != w.rank) std::this_thread::yield();
    backward(w, 0, random);
    w.reducer.wait();
    ++turns;
    w.ops.synchronize();
    w.comm.barrier();
  });
}

TEST(CudaReducerOfTwo, TimesEachBucketOfTheStepBefore) {
  on_workers(2, std::chrono::seconds(60), [](const Worker& w) {
    std::mt19937 random(1);
    backward(w, 0, random);
    w.reducer.wait();
    EXPECT_TRUE(w.reducer.timeline().buckets.empty());
    w.ops.synchronize();
    backward(w, 1, random);
    w.reducer.wait();
    w.ops.synchronize();
    const GradReducer::Timeline& t = w.reducer.timeline();
    ASSERT_EQ(t.buckets.size(), 16u);
    EXPECT_EQ(t.buckets.front().offset, kCount - 64);
    EXPECT_EQ(t.buckets.back().offset, 0);
    for (const auto& bucket : t.buckets) EXPECT_LE(bucket.start, bucket.end);
    EXPECT_LE(t.wait_called, t.wait_done);
    w.comm.barrier();
  });
}

TEST(CudaReducerOfTwo, NamesAWorkerThatStopsInItsBackwardPass) {
  std::atomic<bool> over = false;
  on_workers(2, std::chrono::milliseconds(400), [&](const Worker& w) {
    std::mt19937 random(1);
    if (w.rank == 1) {
      while (!over) std::this_thread::yield();
      return;
    }
    const std::string error = testing::message_of<CommError>([&] {
      backward(w, 0, random);
      w.reducer.wait();
      w.ops.synchronize();
      w.comm.throw_if_failed();
    });
    over = true;
    EXPECT_THAT(error, ::testing::AllOf(::testing::HasSubstr("comm 'gradients', rank 0 of 2"),
                                        ::testing::HasSubstr("all_reduce of 256 bytes (number 1)"),
                                        ::testing::HasSubstr("rank 1 (127.0.0.1, GPU 1)")));
  });
}

TEST(CudaReducerOfTwo, WaitingTooEarlyIsAnError) {
  on_workers(2, std::chrono::seconds(60), [](const Worker& w) {
    w.reducer.ready(kCount - 100);
    EXPECT_THROW(w.reducer.wait(), std::logic_error);
    w.ops.synchronize();
    w.comm.barrier();
  });
}

}  // namespace
}  // namespace pfc
