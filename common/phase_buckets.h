// Histogram buckets for the duration of phases, used by workers and metrics.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace pfc {

/// Upper bounds in seconds, inclusive: from a millisecond on a GPU to a minute for an evaluation
/// on a CPU. One more bucket holds longer times.
inline constexpr std::array<double, 15> kPhaseBounds{
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
inline constexpr std::size_t kPhaseBuckets = kPhaseBounds.size() + 1;

constexpr std::size_t phase_bucket(double seconds) {
  return static_cast<std::size_t>(std::ranges::lower_bound(kPhaseBounds, seconds) -
                                  kPhaseBounds.begin());
}

}  // namespace pfc
