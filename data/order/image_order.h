// Which image an epoch shows at which position.
#pragma once

#include <cstdint>

namespace pfc {

/// A permutation of the images for each epoch: a pure function of epoch and position, so that any
/// worker can compute any position: in constant memory, and in a time that does not depend on the
/// number of images or files, only on that of data sets. Thread-safe.
class ImageOrder {
 public:
  virtual ~ImageOrder() = default;
  /// The image at a position 0 .. images - 1 of an epoch.
  [[nodiscard]] virtual std::int64_t at(std::int64_t epoch, std::int64_t position) const = 0;
};

}  // namespace pfc
