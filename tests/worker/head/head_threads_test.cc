// Tests that a worker uses only its own cores, because other workers of the host use the others.
#include <gtest/gtest.h>
#include <omp.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "comm/make_comm.h"
#include "kernels/make_ops.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

std::ptrdiff_t threads_of_this_process() {
  using Tasks = std::filesystem::directory_iterator;
  return std::distance(Tasks("/proc/self/task"), Tasks());
}

TEST(HeadOfOneThread, StartsNoMoreThreads) {
  constexpr std::int64_t kSamples = 64, kDimension = 64, kClasses = 5000;
  MicroBatch batch = random_batch(kSamples, kClasses, kDimension, 1);
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const auto comm = make_host_comm({}, nullptr);
  const auto head = make_head(*ops, *comm, {.classes = kClasses, .embedding_size = kDimension});
  std::ptrdiff_t before = 0, after = 0;
  // Runs in a thread without an OpenMP team; OpenMP would give it a team of three threads.
  std::thread([&] {
    omp_set_num_threads(3);
    before = threads_of_this_process();
    const ActiveCentres active = head->sample(batch.labels, 1);
    head->run({.all_embeddings = Tensor(batch.embeddings.data(), {kSamples, kDimension}),
               .all_labels = batch.labels,
               .active = active});
    after = threads_of_this_process();
  }).join();
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace pfc::testing
