// Reads an image's Exif orientation and rotates its pixels upright.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/images/image_size.h"

namespace pfc {

/// Values of the tag Orientation in Exif 2.32, section 4.6.4.
enum class Orientation : std::uint8_t {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kMirroredUpsideDown = 4,
  kTransposed = 5,
  kTurnRight = 6,  ///< upright after a quarter turn to the right
  kTransversed = 7,
  kTurnLeft = 8,
};

/// Returns the orientation of a JPEG, PNG or WebP; kUpright if it has none or an invalid one.
Orientation orientation_of(std::span<const std::byte> image);

/// Returns whether rows become columns.
constexpr bool swaps_sides(Orientation orientation) {
  return orientation >= Orientation::kTransposed;
}

/// Copies pixels [stored.height, stored.width, 3] into `upright` in upright order. `upright` has
/// height and width exchanged if swaps_sides(orientation). REQUIRES: the spans do not overlap.
void turn_upright(std::span<const std::uint8_t> rgb, ImageSize stored, Orientation orientation,
                  std::span<std::uint8_t> upright);

}  // namespace pfc
