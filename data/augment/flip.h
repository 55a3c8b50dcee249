// Random horizontal flips, the most common augmentation of training images.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/math/philox.h"

namespace pfc {

/// Returns true for half of the images. A function of the seed and the image's position in its
/// epoch, so it does not depend on the number of workers and threads.
inline bool flips(std::uint64_t seed, std::int64_t epoch, std::int64_t position) {
  const Philox4 words = random_words(seed, Stream::kAugment, static_cast<std::uint32_t>(epoch),
                                     static_cast<std::uint64_t>(position));
  return (words.x[0] & 1u) != 0;
}

/// Mirrors rgb [height, width, 3] left to right, in place.
inline void flip_horizontally(std::span<std::uint8_t> rgb, std::int64_t width) {
  using Pixel = std::array<std::uint8_t, 3>;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * 3;
  for (std::size_t row = 0; row + row_bytes <= rgb.size(); row += row_bytes) {
    std::uint8_t* left = rgb.data() + row;
    std::uint8_t* right = left + row_bytes - 3;
    for (; left < right; left += 3, right -= 3) {
      Pixel a, b;
      std::memcpy(a.data(), left, 3);
      std::memcpy(b.data(), right, 3);
      std::memcpy(left, b.data(), 3);
      std::memcpy(right, a.data(), 3);
    }
  }
}

}  // namespace pfc
