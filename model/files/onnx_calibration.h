// Chooses the ranges of activations that int8 represents.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace pfc {

/// Value of a graph -> r > 0: int8 has steps of r / 127, and clips beyond -r and r.
using ActivationRanges = std::map<std::string, float>;

/// Histograms of activations by magnitude: 32 bins for each power of two.
class ActivationHistograms {
 public:
  void add(const std::string& value, std::span<const float> numbers);

  /// Returns for each value the range for which int8 has the least mean squared error. Throws
  /// InputError that names a value with non-finite numbers.
  [[nodiscard]] ActivationRanges ranges() const;

 private:
  std::map<std::string, std::vector<std::uint64_t>> counts_;  ///< kBins counts for each value
};

}  // namespace pfc
