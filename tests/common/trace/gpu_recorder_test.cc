#include "common/trace/gpu/gpu_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/machine/dynamic_library.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kFake = PFC_FAKE_DRIVERS "/two_gpus/libcupti.so.13";

/// The GPU of tests/support/drivers/fake_cupti.cc, whose buffers hold three records.
class GpuRecording : public ::testing::Test {
 protected:
  void runs(const char* name, std::uint32_t stream = 7, std::uint64_t bytes = 0) {
    fake.find<void(const char*, std::uint32_t, std::uint64_t, std::uint64_t)>("fake_cupti_run")(
        name, stream, 1'000, bytes);
  }
  [[nodiscard]] std::size_t enabled() const {
    return fake.find<std::size_t()>("fake_cupti_enabled")();
  }

  const DynamicLibrary fake{kFake};
  GpuRecorder recorder{{"/nowhere/libcupti.so.13", kFake}};
};

TEST_F(GpuRecording, KeepsRecordsOfSeveralBuffers) {
  recorder.begin();
  for (int i = 0; i < 10; ++i) runs("_ZN3pfc7softmaxIfEEvPKfi");
  runs(nullptr, 13, 4'096);
  const GpuActivity activity = recorder.end(0ms);
  EXPECT_EQ(activity.problem, "");
  ASSERT_EQ(activity.records.size(), 11U);
  EXPECT_STREQ(activity.records[9].name, "pfc::softmax");
  EXPECT_EQ(activity.records[9].name, activity.records[0].name);  // stored once
  EXPECT_EQ(activity.records[9].stream, 7U);
  EXPECT_STREQ(activity.records[10].name, "copy host to device");
  EXPECT_EQ(activity.records[10].bytes, 4'096U);
  EXPECT_EQ(activity.dropped, 0U);
}

TEST_F(GpuRecording, ConvertsTimesToThisMachinesClock) {
  recorder.begin();
  const TimePoint before = Clock::now();
  runs("kernel");
  const TimePoint after = Clock::now();
  const GpuActivity activity = recorder.end(0ms);
  const TimePoint begin = time_of_gpu(activity, activity.records.at(0).begin_ns);
  const auto error = activity.before.error + activity.after.error + 1us;
  EXPECT_GE(begin + error, before);
  EXPECT_LE(begin, after + error);
}

TEST_F(GpuRecording, EnablesCuptiOnlyWhileItRecords) {
  EXPECT_EQ(enabled(), 0U);
  recorder.begin();
  EXPECT_EQ(enabled(), 3U);
  static_cast<void>(recorder.end(0ms));
  EXPECT_EQ(enabled(), 0U);
  recorder.begin();
  recorder.cancel();
  EXPECT_EQ(enabled(), 0U);
}

TEST_F(GpuRecording, CountsRecordsDroppedByCupti) {
  recorder.begin();
  fake.find<void(std::size_t)>("fake_cupti_drop")(5);
  runs("kernel");
  EXPECT_EQ(recorder.end(0ms).dropped, 5U);
}

TEST_F(GpuRecording, LimitsTheNumberOfRecords) {
  recorder.begin();
  for (std::size_t i = 0; i < GpuRecorder::kMostRecords + 10; ++i) runs("kernel");
  const GpuActivity activity = recorder.end(0ms);
  EXPECT_EQ(activity.records.size(), GpuRecorder::kMostRecords);
  EXPECT_EQ(activity.dropped, 10U);
  ASSERT_TRUE(activity.complete_until_ns.has_value());
  EXPECT_GE(*activity.complete_until_ns, activity.records.back().begin_ns);
}

TEST_F(GpuRecording, ReportsWhyCuptiFails) {
  ASSERT_EQ(::setenv("PFC_FAKE_CUPTI_ERROR", "35", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  recorder.begin();
  ::unsetenv("PFC_FAKE_CUPTI_ERROR");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(enabled(), 0U);
  const GpuActivity activity = recorder.end(0ms);
  EXPECT_TRUE(activity.records.empty());
  EXPECT_THAT(activity.problem, HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"));
  EXPECT_THAT(activity.problem, HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
}

TEST_F(GpuRecording, ReportsAnotherRecorderInTheProcess) {
  recorder.begin();
  GpuRecorder other({kFake});
  other.begin();
  EXPECT_THAT(other.end(0ms).problem, HasSubstr("another recording"));
  runs("kernel");
  EXPECT_EQ(recorder.end(0ms).records.size(), 1U);
}

TEST(GpuRecorder, ReportsAMissingCupti) {
  GpuRecorder recorder({"/nowhere/libcupti.so.13"});
  recorder.begin();
  EXPECT_THAT(recorder.end(0ms).problem, HasSubstr("no libcupti.so.13"));
}

}  // namespace
}  // namespace pfc
