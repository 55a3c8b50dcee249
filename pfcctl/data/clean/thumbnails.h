// Compares the pixels of images: are they copies of one picture?
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// Smallest correlation of copies. In LFW, of 2,000 copies each of aligned faces (112 x 112 pixels)
/// with JPEG quality 30 to 95, scaled by 0.5 to 2, with noise, or with another brightness and
/// contrast, at least 99.8 % reach it. None of two million pairs of different people does. Of
/// difference and DCT hashes with 64 or 256 bits, none separates smaller images as well.
inline constexpr double kLeastCorrelation = 0.97;

/// Images of 16 x 16 grey pixels, which serve as perceptual hashes. Thread-safe.
class Thumbnails {
 public:
  /// Borrows the data set.
  explicit Thumbnails(const Dataset& images) : images_(images) {}

  /// Returns the correlation of the pixels of two images, or of one image and the mirror image of
  /// the other if that is larger. Returns 0 if an image cannot be decoded, has only one brightness,
  /// or is not in the data set. Decodes an image when it is compared first, and keeps about 350
  /// bytes for it. Throws InputError like Dataset::read().
  double correlation(std::int64_t a, std::int64_t b);

 private:
  using Thumbnail = std::vector<std::uint8_t>;  // [16, 16]; empty if it cannot be decoded
  const Thumbnail& thumbnail(std::int64_t image);

  const Dataset& images_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Thumbnail> thumbnails_;  // guarded by mutex_
};

}  // namespace pfc
