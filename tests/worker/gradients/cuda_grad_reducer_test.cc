// Tests the gradient reducer on GPUs. The streams of emulated GPUs run as late as possible, so if
// streams are not ordered as necessary, one reads numbers that are not written yet.
#include <gtest/gtest.h>

#include "tests/worker/gradients/reduced_gradients.h"

namespace pfc {
namespace {

using testing::backward;
using testing::gradient;
using testing::kCount;
using testing::Worker;

class CudaReducer : public ::testing::TestWithParam<int> {};

TEST_P(CudaReducer, SumsAfterWritesAndBeforeReadsOfTheComputeStream) {
  const int world_size = GetParam();
  const Transport nccl = transports().back();
  if (const std::string why_not = nccl.why_not(); !why_not.empty()) GTEST_SKIP() << why_not;
  on_devices(nccl, world_size, [&](const RankOnDevice& rank_on_device) {
    const auto& [ops, comm, gradient_comm] = rank_on_device;
    const auto memory = ops.allocate(kCount * sizeof(float));
    const Tensor gradients(memory->data(), DType::kFloat32, {kCount});
    const auto reducer = make_grad_reducer(ops, gradient_comm, gradients, {.bucket_bytes = 4 * 64});
    const Worker w{comm.rank(), ops, comm, gradient_comm, *reducer, gradients};
    // Ranks have different speeds, but the same buckets.
    std::mt19937 random(static_cast<unsigned>(w.rank));
    for (int step = 0; step < 5; ++step) {
      backward(w, step, random);
      w.reducer.wait();
      // Makes each of the two streams the first to run in some steps.
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

INSTANTIATE_TEST_SUITE_P(WorldSizes, CudaReducer, ::testing::ValuesIn(world_sizes()));

}  // namespace
}  // namespace pfc
