// Tests the reducer of a GPU with workers as threads of one process, each with an emulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/error_message.h"
#include "tests/worker/gradients/reduced_gradients.h"

namespace pfc {
namespace {

using testing::backward;
using testing::kCount;
using testing::Worker;

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

TEST(CudaReducerOfTwo, HostDoesNotWait) {
  std::atomic<int> turns = 0;
  on_workers(2, std::chrono::seconds(60), [&](const Worker& w) {
    // The ranks make their calls one after another. So if a host waited for the other rank, it
    // would wait forever.
    std::mt19937 random(1);
    while (turns != w.rank) std::this_thread::yield();
    backward(w, 0, random);
    w.reducer.wait();
    ++turns;
    w.ops.synchronize();
    w.comm.barrier();
  });
}

TEST(CudaReducerOfTwo, TimesEachBucketOfThePreviousStep) {
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

TEST(CudaReducerOfTwo, RejectsWaitingTooEarly) {
  on_workers(2, std::chrono::seconds(60), [](const Worker& w) {
    w.reducer.ready(kCount - 100);
    EXPECT_THROW(w.reducer.wait(), std::logic_error);
    w.ops.synchronize();
    w.comm.barrier();
  });
}

}  // namespace
}  // namespace pfc
