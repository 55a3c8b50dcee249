#include "common/trace/gpu/gpu_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace pfc {
namespace {

using namespace std::chrono_literals;

TEST(KernelName, HasNoArgumentsAndNoReturnType) {
  EXPECT_EQ(kernel_name("_ZN3pfc7softmaxIfEEvPKfi"), "pfc::softmax");
  EXPECT_EQ(kernel_name("_ZN3pfc12_GLOBAL__N_14reluIfEEvPT_"), "pfc::relu");
}

TEST(KernelName, KeepsNamesThatAreNotMangled) {
  EXPECT_EQ(kernel_name("sm90_xmma_gemm"), "sm90_xmma_gemm");
}

TEST(KernelName, IsTheWordKernelIfTheNameIsMissing) { EXPECT_EQ(kernel_name(nullptr), "kernel"); }

TEST(KernelName, IsLimitedInLength) {
  const std::string name = kernel_name(std::string(500, 'x').c_str());
  EXPECT_EQ(name.size(), kLongestKernelName);
  EXPECT_TRUE(name.ends_with("..."));
}

constexpr TimePoint kBegin{1h};

/// The GPU's clock is 5 s ahead, and 1 ms more after 100 s.
GpuActivity drifting() {
  GpuActivity activity;
  activity.before = {.at = kBegin, .offset = 5s, .error = 0ns};
  activity.after = {.at = kBegin + 100s, .offset = 5s + 1ms, .error = 0ns};
  return activity;
}

std::uint64_t on_gpu_clock(std::chrono::nanoseconds since_begin) {
  return static_cast<std::uint64_t>((kBegin.time_since_epoch() + 5s + since_begin) / 1ns);
}

TEST(GpuClock, InterpolatesBetweenTwoMeasurements) {
  const GpuActivity activity = drifting();
  EXPECT_EQ(time_of_gpu(activity, on_gpu_clock(0s)), kBegin);
  EXPECT_NEAR((time_of_gpu(activity, on_gpu_clock(50s + 500us)) - (kBegin + 50s)) / 1ns, 0, 10);
  EXPECT_NEAR((time_of_gpu(activity, on_gpu_clock(100s + 1ms)) - (kBegin + 100s)) / 1ns, 0, 10);
}

/// Three steps of 10 ms that start 1 s after the clock was read.
class GpuSteps : public ::testing::Test {
 protected:
  GpuSteps() {
    activity.before = {.at = kBegin, .offset = 5s, .error = 0ns};
    activity.after = {.at = kBegin + 100s, .offset = 5s, .error = 0ns};
    recording.tracks = {{TraceRow::kPhases, "training"}};
    recording.first_step = 4;
    recording.last_step = 6;
    for (const int i : {0, 1, 2}) {
      const TimePoint begin = kBegin + 1s + i * 10ms;
      recording.spans.push_back({"forward", 0, begin, begin + 10ms, 4 + i, 0});
    }
  }
  void runs(std::chrono::nanoseconds after_first, std::uint32_t stream = 7) {
    activity.records.push_back(
        {"conv", on_gpu_clock(1s + after_first), on_gpu_clock(1s + after_first + 1ms), 64, stream});
  }
  GpuSpans spans(std::size_t most = 100) { return spans_of_gpu(activity, recording, most); }

  GpuActivity activity;
  TraceRecording recording;
};

TEST_F(GpuSteps, TakeTheirNumbersFromTheHostsStepAtThatTime) {
  runs(12ms);
  runs(2ms);
  const GpuSpans all = spans();
  ASSERT_EQ(all.spans.size(), 2U);
  EXPECT_EQ(all.spans[0].number, 4);
  EXPECT_EQ(all.spans[0].begin, kBegin + 1s + 2ms);
  EXPECT_EQ(all.spans[0].bytes, 64U);
  EXPECT_EQ(all.spans[1].number, 5);
  EXPECT_EQ(all.note, "");
}

TEST_F(GpuSteps, ExcludeSpansBeforeTheFirstAndAfterTheLastStep) {
  runs(-1ms);
  runs(31ms);
  EXPECT_TRUE(spans().spans.empty());
}

TEST_F(GpuSteps, HaveARowForEachStream) {
  runs(1ms, 7);
  runs(2ms, 13);
  runs(3ms, 7);
  const GpuSpans all = spans();
  ASSERT_EQ(recording.tracks.size(), 3U);
  EXPECT_EQ(recording.tracks[1].name, "gpu stream 7");
  EXPECT_EQ(recording.tracks[2].name, "gpu stream 13");
  EXPECT_EQ(all.spans[2].track, 1U);
}

TEST_F(GpuSteps, DropWholeStepsIfThereAreTooManySpans) {
  for (int i = 0; i < 9; ++i) runs(i * 3ms + 1ms);  // 3, 4 and 2 in the steps
  const GpuSpans all = spans(5);
  EXPECT_EQ(all.spans.size(), 3U);
  EXPECT_EQ(all.spans.back().number, 4);
  EXPECT_EQ(all.dropped, 6U);
  EXPECT_NE(all.note, "");
}

TEST_F(GpuSteps, KeepAPartOfTheFirstStepIfNoWholeStepFits) {
  for (int i = 0; i < 9; ++i) runs(i * 3ms + 1ms);
  const GpuSpans all = spans(2);
  ASSERT_EQ(all.spans.size(), 2U);
  EXPECT_EQ(all.spans[0].number, 0);
  EXPECT_EQ(all.dropped, 7U);
}

TEST_F(GpuSteps, AreIncompleteAfterADroppedKernel) {
  runs(2ms);
  runs(12ms);
  activity.dropped = 1;
  activity.complete_until_ns = on_gpu_clock(1s + 13ms);
  const GpuSpans all = spans();
  EXPECT_EQ(all.spans[0].number, 4);
  EXPECT_EQ(all.spans[1].number, 0);
  EXPECT_EQ(all.dropped, 1U);
}

TEST_F(GpuSteps, AreIncompleteIfTheyBeganBeforeTheRecording) {
  activity.before.at = kBegin + 1s + 5ms;
  runs(7ms);
  runs(12ms);
  const GpuSpans all = spans();
  EXPECT_EQ(all.spans[0].number, 0);
  EXPECT_EQ(all.spans[1].number, 5);
}

}  // namespace
}  // namespace pfc
