// Keys of a job that choose between fixed alternatives, and the margin. Kernels include this header
// instead of all keys.
#pragma once

namespace pfc {

/// kAuto: the fastest precision of all workers' devices (worker/start/precision.h).
enum class Precision { kFp32, kBf16, kFp16, kAuto };
enum class MarginGradient { kExact, kStraightThrough };
enum class OptimizerKind { kSgd, kAdamW };
enum class ScheduleKind { kPolynomial, kMultistep, kCosine, kOneCycle };
/// How the margin rises (worker/schedule/head_schedule.h).
enum class MarginIncrease { kExponential, kLinear };
/// How the learning rate scales with the number of workers (worker/schedule/lr_schedule.h).
enum class LrScaling { kAuto, kLinear, kSqrt, kNone };
enum class CentrePrecision { kFp32, kBf16Momentum, kBf16, kInt8, kFp8 };
/// Returns whether each number of a class centre takes one byte.
constexpr bool is_one_byte(CentrePrecision p) {
  return p == CentrePrecision::kInt8 || p == CentrePrecision::kFp8;
}
/// How the negative classes of a step are chosen (docs/head.md).
enum class Sampler { kRandom, kHard };
/// Where the class centres and their moments are kept (docs/centre-storage.md).
enum class CentreStorage { kDevice, kDisk };
/// Initial values of the class centres that no file contains (worker/initial/mean_centres.h).
enum class InitialCentres { kRandom, kMean };
enum class DeviceChoice { kAuto, kCpu, kCuda };
/// For several data sets: one softmax over the classes of all sets, or one for each set over its
/// classes.
enum class Heads { kOne, kSeparate };
/// Order in which training reads images (data/reading/read_options.h).
enum class ReadKind { kRandom, kSequential };

/// target logit = s * (cos(m1 * theta + m2) - m3).
struct Margin {
  double m1 = 1.0;
  double m2 = 0.5;
  double m3 = 0.0;

  friend bool operator==(const Margin&, const Margin&) = default;
};

}  // namespace pfc
