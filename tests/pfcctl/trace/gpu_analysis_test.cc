#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pfcctl/trace/trace_analysis.h"
#include "pfcctl/trace/trace_json.h"
#include "tests/pfcctl/trace/recorded_trace.h"

namespace pfc {
namespace {

using testing::analysis_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RecordedTrace;

/// Returns two steps of 10 ms, each with two overlapping kernels and a copy: busy from 1 to 5 ms.
RecordedTrace busy_gpu(int workers = 1) {
  RecordedTrace trace(workers);
  for (const int i : {0, 1}) {
    const double begin = 10.0 * i;
    trace.device(0, "cuda:0")
        .span(0, RecordedTrace::kTraining, "forward", begin, begin + 10, 10 + i)
        .span(0, RecordedTrace::kGpu, "conv", begin + 1, begin + 4, 10 + i)
        .span(0, RecordedTrace::kOtherStream, "relu", begin + 2, begin + 3, 10 + i)
        .span(0, RecordedTrace::kOtherStream, "copy host to device", begin + 3, begin + 5, 10 + i,
              4'096);
  }
  return trace;
}

TEST(GpuAnalysis, CountsKernelsPerStep) {
  const TraceAnalysis analysis = analysis_of(busy_gpu().collected(10, 11));
  ASSERT_EQ(analysis.kernels.size(), 3U);
  EXPECT_EQ(analysis.kernels[0].name, "conv");
  EXPECT_NEAR(analysis.kernels[0].calls, 1, 1e-9);
  EXPECT_NEAR(analysis.kernels[0].seconds, 0.003, 1e-6);
  EXPECT_EQ(analysis.kernels[1].name, "copy host to device");
}

TEST(GpuAnalysis, CountsOverlappingKernelsOnceAsBusy) {
  const TraceAnalysis analysis = analysis_of(busy_gpu().collected(10, 11));
  ASSERT_EQ(analysis.gpus.size(), 1U);
  EXPECT_NEAR(analysis.gpus[0].share, 0.4, 1e-4);
}

TEST(GpuAnalysis, IgnoresIncompleteSteps) {
  RecordedTrace trace = busy_gpu();
  trace.span(0, RecordedTrace::kTraining, "forward", 20, 30, 12)
      .span(0, RecordedTrace::kGpu, "conv", 21, 22, 0);
  const TraceAnalysis analysis = analysis_of(trace.collected(10, 12));
  EXPECT_NEAR(analysis.kernels[0].seconds, 0.003, 1e-6);
  EXPECT_NEAR(analysis.gpus[0].share, 0.4, 1e-4);
}

TEST(GpuAnalysis, TextHasATable) {
  const CollectedTrace trace = busy_gpu().collected(10, 11);
  const std::string text = to_text(trace, analysis_of(trace));
  EXPECT_THAT(text, HasSubstr("GPU kernels, per step"));
  EXPECT_THAT(text, HasSubstr("1.0       3.0 ms\n"));
  EXPECT_THAT(text, HasSubstr("GPUs busy for 40.0 % of a step."));
}

TEST(GpuAnalysis, ShowsAtMostTenKernels) {
  RecordedTrace trace = busy_gpu();
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("kernel" + std::to_string(i));
  for (int i = 0; i < 20; ++i) {
    trace.span(0, RecordedTrace::kGpu, names[static_cast<std::size_t>(i)].c_str(), 5, 5.1 + 0.1 * i,
               10);
  }
  const CollectedTrace collected = trace.collected(10, 11);
  const std::string text = to_text(collected, analysis_of(collected));
  EXPECT_THAT(text, HasSubstr("kernel19"));
  EXPECT_THAT(text, Not(HasSubstr("kernel5")));
}

TEST(GpuAnalysis, NamesRanksWhoseUseDiffers) {
  RecordedTrace trace = busy_gpu(2);
  trace.span(1, RecordedTrace::kTraining, "forward", 0, 10, 10)
      .span(1, RecordedTrace::kGpu, "conv", 1, 9, 10);
  const CollectedTrace collected = trace.collected(10, 11);
  EXPECT_THAT(to_text(collected, analysis_of(collected)),
              HasSubstr("GPUs busy for 40.0 % (rank 0 (host-b, slot 0)) to 80.0 % (rank 1 "
                        "(host-b, slot 1)) of a step."));
}

TEST(GpuAnalysis, OmitsGpusIfNoneRecordedKernels) {
  const CollectedTrace trace =
      RecordedTrace(1).span(0, RecordedTrace::kTraining, "forward", 0, 10, 10).collected();
  EXPECT_THAT(to_text(trace, analysis_of(trace)), Not(HasSubstr("GPU")));
}

TEST(GpuAnalysis, JsonShowsBytesAndTheStep) {
  std::string text;
  const CollectedTrace trace = busy_gpu().collected(10, 11);
  write_trace_json(trace, {}, [&](std::string_view part) { text += part; });
  int copies = 0;
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("name") != "copy host to device") continue;
    ++copies;
    EXPECT_EQ(event.at("cat"), "gpu");
    EXPECT_EQ(event.at("args").at("bytes"), 4'096);
    EXPECT_GE(event.at("args").at("step"), 10);
  }
  EXPECT_EQ(copies, 2);
}

}  // namespace
}  // namespace pfc
