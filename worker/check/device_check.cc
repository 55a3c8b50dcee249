#include "worker/check/device_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/machine/cores.h"
#include "kernels/make_ops.h"
#include "worker/check/thread_time.h"

namespace pfc {
namespace {

using enum CheckFinding::Verdict;
using Comparison = CheckFinding::Comparison;

constexpr double kDeviceSeconds = 1.0;

/// Returns the floating-point operations per second of a float32 convolution. On a CPU measures a
/// second of the thread's CPU time, so that other load does not matter.
double convolution_speed(Ops& ops, std::int64_t batch) {
  const Conv2dShape shape{
      .batch = batch, .in_h = 28, .in_w = 28, .in_c = 64, .out_c = 64, .kernel = 3, .pad = 1};
  const auto buffer = [&](const Shape& s) {
    return ops.allocate(static_cast<std::size_t>(s.elements()) * sizeof(float));
  };
  const auto x = buffer(shape.x_shape()), w = buffer(shape.w_shape()), y = buffer(shape.y_shape());
  const auto tensor = [](Buffer& memory, const Shape& s) {
    return Tensor(reinterpret_cast<float*>(memory.data()), s);
  };
  const Tensor in = tensor(*x, shape.x_shape()), weights = tensor(*w, shape.w_shape());
  ops.fill(in, 1);
  ops.fill(weights, 0.01F);
  const auto conv = ops.conv2d(shape);
  const double operations = 2.0 * static_cast<double>(shape.y_shape().elements()) * 64 * 9;
  double best = 0;
  for (const TimePoint begin = Clock::now(); seconds_since(begin) < kDeviceSeconds;) {
    const TimePoint start = Clock::now();
    const double own_start = thread_seconds();
    conv->forward(in, weights, tensor(*y, shape.y_shape()));
    ops.synchronize();
    const double seconds = ops.on_host() ? thread_seconds() - own_start : seconds_since(start);
    best = std::max(best, operations / std::max(seconds, 1e-9));
  }
  return best;
}

CheckFinding speed_finding(double operations, bool gpu) {
  return {
      .what = "compute speed",
      .found = fmt::format("{:.0f} GFLOP/s{}", operations / 1e9, gpu ? "" : " of one core"),
      .expected = {},
      .remedy =
          "check this host's power limits, clock and cooling, and which other programs run there",
      .value = operations / 1e9,
      .unit = "GFLOP/s",
      .comparison = Comparison::kAsFastAsOthers,
      .otherwise = kSlows,
      .of_host = !gpu};
}

CheckFinding same(const std::string& what, const std::string& found, const std::string& remedy,
                  CheckFinding::Verdict otherwise) {
  return {.what = what,
          .found = found,
          .expected = {},
          .remedy = remedy,
          .comparison = Comparison::kSameEverywhere,
          .otherwise = otherwise};
}

CheckFinding memory_errors(const GpuHealth& gpu) {
  CheckFinding finding{.what = "memory errors of " + gpu.name,
                       .found = fmt::format("{} that could not be corrected", *gpu.memory_errors),
                       .expected = "none"};
  if (*gpu.memory_errors > 0) {
    finding.verdict = kStops;
    finding.remedy = "reset the GPU (nvidia-smi -r) or reboot, and replace it if the errors return";
  }
  return finding;
}

CheckFinding throttling(const GpuHealth& gpu) {
  CheckFinding finding{
      .what = "clock of " + gpu.name,
      .found = fmt::format("{} of {} MHz{}", gpu.clock_mhz, gpu.highest_clock_mhz,
                           gpu.throttled_by.empty() ? "" : ", limited by " + gpu.throttled_by),
      .expected = "not limited"};
  if (!gpu.throttled_by.empty()) {
    finding.verdict = kSlows;
    finding.remedy = "check cooling, power cables and nvidia-smi -q -d PERFORMANCE,POWER";
  }
  return finding;
}

}  // namespace

std::vector<CheckFinding> compute_findings(Ops& ops, const CoreShares& threads) {
  if (!ops.on_host()) return {speed_finding(convolution_speed(ops, 256), true)};
  const auto one_thread = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  CheckFinding share{.what = "cores of a worker",
                     .found = std::to_string(threads.of_each),
                     .expected = {},
                     .remedy =
                         "check the CPU limit of this host's container or unit, "
                         "taskset, and the number of its workers in --hosts",
                     .value = static_cast<double>(threads.of_each),
                     .unit = "cores",
                     .comparison = Comparison::kAsFastAsOthers,
                     .otherwise = kSlows};
  if (!oversubscription(threads.of_each, threads.workers, threads.cores).empty()) {
    share.verdict = kSlows;
    share.found = fmt::format("{} of {} run {} threads on {}", counted(threads.workers, "worker"),
                              counted(threads.of_each, "thread"), threads.of_each * threads.workers,
                              counted(threads.cores, "core"));
    share.expected = "no more threads than cores";
    share.remedy = "unset OMP_NUM_THREADS on this host";
  }
  return {speed_finding(convolution_speed(*one_thread, 1), false), share};
}

std::vector<CheckFinding> gpu_findings(const GpuHealthReport& health, const std::string& nccl) {
  std::vector<CheckFinding> findings;
  if (!health.problem.empty()) {
    findings.push_back({.what = "health of the GPUs",
                        .found = health.problem,
                        .expected = "NVML, which comes with the driver",
                        .verdict = kNote,
                        .remedy = "install libnvidia-ml of the driver's version, so that GPUs can "
                                  "be checked"});
  } else {
    findings.push_back(
        same("driver", health.driver, "install the same driver on all hosts", kNote));
  }
  if (!nccl.empty()) {
    findings.push_back(same("NCCL", nccl, "install the same NCCL on all hosts", kStops));
  }
  for (const GpuHealth& gpu : health.gpus) {
    if (gpu.memory_errors) findings.push_back(memory_errors(gpu));
    if (gpu.highest_clock_mhz > 0) findings.push_back(throttling(gpu));
  }
  return findings;
}

}  // namespace pfc
