#include "worker/check/device_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/make_ops.h"
#include "worker/check/check.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using Verdict = CheckFinding::Verdict;

const CheckFinding& about(const std::vector<CheckFinding>& findings, const std::string& what) {
  for (const CheckFinding& each : findings) {
    if (each.what.starts_with(what)) return each;
  }
  ADD_FAILURE() << "no finding about " << what;
  return findings.front();
}

GpuHealthReport report_of(const GpuHealth& gpu) {
  return {.driver = "580.65.06", .gpus = {gpu}, .problem = {}};
}

TEST(DeviceCheck, SaysThatUncorrectableMemoryErrorsStopTheJob) {
  const auto findings =
      gpu_findings(report_of({.name = "GPU 0", .memory_errors = 3, .throttled_by = {}}), "2.28.9");
  EXPECT_EQ(about(findings, "memory errors of GPU 0").verdict, Verdict::kStops);
  EXPECT_EQ(about(findings, "driver").found, "580.65.06");
  EXPECT_EQ(about(findings, "NCCL").otherwise, Verdict::kStops);
}

TEST(DeviceCheck, ReportsWhatThrottlesAGpu) {
  const auto findings = gpu_findings(report_of({.name = "GPU 0",
                                                .memory_errors = {},
                                                .clock_mhz = 600,
                                                .highest_clock_mhz = 1980,
                                                .throttled_by = "heat"}),
                                     "");
  const CheckFinding& clock = about(findings, "clock of GPU 0");
  EXPECT_EQ(clock.verdict, Verdict::kSlows);
  EXPECT_EQ(clock.found, "600 of 1980 MHz, limited by heat");
}

TEST(DeviceCheck, NotesThatGpuHealthIsUnknownWithoutNvml) {
  const auto findings = gpu_findings({.driver = {}, .gpus = {}, .problem = "no NVML (x)"}, "");
  EXPECT_EQ(about(findings, "health of the GPUs").verdict, Verdict::kNote);
}

TEST(DeviceCheck, MeasuresTheSpeedOfACpu) {
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const auto findings = compute_findings(*ops, {.of_each = 3, .workers = 2, .cores = 6});
  EXPECT_GT(about(findings, "compute speed").value, 0);
  EXPECT_EQ(about(findings, "cores of a worker").value, 3);
  EXPECT_EQ(about(findings, "cores of a worker").verdict, Verdict::kOk);
}

TEST(DeviceCheck, FindsMoreThreadsThanCores) {
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const auto findings = compute_findings(*ops, {.of_each = 64, .workers = 2, .cores = 2});
  const CheckFinding& threads = about(findings, "cores of a worker");
  EXPECT_EQ(threads.verdict, Verdict::kSlows);
  EXPECT_EQ(threads.found, "2 workers of 64 threads run 128 threads on 2 cores");
  EXPECT_THAT(threads.remedy, HasSubstr("unset OMP_NUM_THREADS"));
  const auto more_workers = compute_findings(*ops, {.of_each = 1, .workers = 3, .cores = 2});
  EXPECT_EQ(about(more_workers, "cores of a worker").verdict, Verdict::kOk)
      << "more workers than cores is a deliberate choice";
}

TEST(ClockCheck, NotesAClockThatIsMoreThanFiveSecondsOff) {
  EXPECT_EQ(finding_of_clock(-4.9, 0.001).verdict, Verdict::kOk);
  const CheckFinding late = finding_of_clock(-5.1, 0.001);
  EXPECT_EQ(late.verdict, Verdict::kNote);
  EXPECT_EQ(late.found, "-5.100 s, accurate to 0.001 s");
  EXPECT_THAT(late.remedy, HasSubstr("time server"));
}

}  // namespace
}  // namespace pfc
