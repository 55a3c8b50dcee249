// Tests the choice of "precision": "auto".
#include "worker/start/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "comm/memory_store.h"
#include "common/error.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

const WorkerPrecisions kNew{.host = "new", .all = precisions_of_cpu(true)};
const WorkerPrecisions kOld{.host = "old", .all = precisions_of_cpu(false)};

TEST(AutoPrecision, IsTheFastestOfOneDevice) {
  const ChosenPrecision chosen = choose_precision(std::vector{kNew});
  EXPECT_EQ(chosen.precision, Precision::kBf16);
  EXPECT_EQ(chosen.message, "precision auto: bf16, the fastest that this device supports");
  EXPECT_EQ(choose_precision(std::vector{kOld}).precision, Precision::kFp32);
}

TEST(AutoPrecision, IsSupportedByAllDevicesAndNamesTheWorkerThatLacksAFasterPrecision) {
  const ChosenPrecision chosen = choose_precision(std::vector{kNew, kNew, kOld});
  EXPECT_EQ(chosen.precision, Precision::kFp32);
  EXPECT_EQ(chosen.message,
            "precision auto: fp32, because the device of worker 2 on host old has no bf16");
}

TEST(AutoPrecision, IsTheSameOnAllWorkers) {
  MemoryStore store;
  std::vector<ChosenPrecision> chosen(3);
  std::vector<std::jthread> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.emplace_back([&, rank] {
      chosen[static_cast<std::size_t>(rank)] =
          agree_on_precision(&store, {.rank = rank, .world_size = 3}, rank == 1 ? kOld : kNew,
                             std::chrono::seconds(60));
    });
  }
  workers.clear();
  for (const ChosenPrecision& each : chosen) {
    EXPECT_EQ(each.precision, Precision::kFp32);
    EXPECT_THAT(each.message, HasSubstr("worker 1 on host old has no bf16"));
  }
}

TEST(AutoPrecision, NamesSilentWorkers) {
  MemoryStore store;
  try {
    agree_on_precision(&store, {.rank = 1, .world_size = 3}, kNew, std::chrono::milliseconds(1));
    FAIL() << "no error was thrown";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("worker 0, 2 has not reported"));
  }
}

}  // namespace
}  // namespace pfc
