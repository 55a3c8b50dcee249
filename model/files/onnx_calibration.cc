#include "model/files/onnx_calibration.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/error.h"

namespace pfc {
namespace {

// A bin counts the magnitudes with the same exponent (8 bits) and the same first 5 bits of the
// fraction.
constexpr int kDroppedBits = 18;
constexpr std::size_t kBins = 1u << (31 - kDroppedBits), kPowerOfTwo = 32;
constexpr std::size_t kNotFinite = 255 * kPowerOfTwo;  // first bin of infinity and NaN
// Number of ranges to try, down to 1/16 of the largest.
constexpr std::size_t kCandidates = 4 * kPowerOfTwo;

double magnitude(std::size_t bin, double part) {
  const auto at = [](std::size_t i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(i << kDroppedBits));
  };
  return at(bin) + part * (double{at(bin + 1)} - at(bin));
}

/// Returns the sum of the squared errors of int8 with this range.
double squared_error(std::span<const std::uint64_t> counts, double range) {
  const double step = range / 127;
  double sum = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    const double x = magnitude(bin, 0.5), beyond = x - range;
    // Errors are uniformly distributed within a step. An x below half a step becomes 0.
    const double error = beyond > 0 ? beyond * beyond : std::min(x * x, step * step / 12);
    sum += static_cast<double>(counts[bin]) * error;
  }
  return sum;
}

float best_range(std::span<const std::uint64_t> counts, std::size_t largest) {
  double best_error = std::numeric_limits<double>::infinity(), best = 1;
  for (std::size_t i = 0; i < kCandidates && i < largest; ++i) {
    const double range = magnitude(largest - i, 1), error = squared_error(counts, range);
    if (error >= best_error) continue;
    best_error = error;
    best = range;
  }
  return static_cast<float>(best);
}

}  // namespace

void ActivationHistograms::add(const std::string& value, std::span<const float> numbers) {
  std::vector<std::uint64_t>& counts = counts_[value];
  counts.resize(kBins);
  for (const float x : numbers)
    ++counts[(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu) >> kDroppedBits];
}

ActivationRanges ActivationHistograms::ranges() const {
  ActivationRanges ranges;
  for (const auto& [value, counts] : counts_) {
    std::size_t largest = kBins - 1;
    while (largest > 0 && counts[largest] == 0) --largest;
    if (largest >= kNotFinite) {
      throw InputError("activation " + value + " is not finite for a calibration image");
    }
    ranges[value] = best_range(std::span(counts).first(largest + 1), largest);
  }
  return ranges;
}

}  // namespace pfc
