// Maps positions of an epoch to images.
#pragma once

#include <cstdint>

namespace pfc {

/// An order of the images for each epoch, a permutation except for BalancedOrder. It is a pure
/// function of epoch and position, so any worker can compute any position. Needs constant memory,
/// except for BalancedOrder, and time that depends on the number of data sets but not on the number
/// of images or files. Thread-safe.
class ImageOrder {
 public:
  virtual ~ImageOrder() = default;
  /// Returns the image at a position 0 .. images - 1 of an epoch.
  [[nodiscard]] virtual std::int64_t at(std::int64_t epoch, std::int64_t position) const = 0;
};

}  // namespace pfc
