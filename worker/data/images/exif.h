// How a photograph is to be turned, as its camera has noted it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "worker/data/images/image_size.h"

namespace pfc {

/// The tag Orientation of Exif 2.32, section 4.6.4, by its value.
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

/// That of a JPEG; kUpright where it says nothing that makes sense.
Orientation orientation_of(std::span<const std::byte> jpeg);

/// Whether rows become columns.
constexpr bool swaps_sides(Orientation orientation) {
  return orientation >= Orientation::kTransposed;
}

/// Fills `upright` from the pixels as they are stored, [stored.height, stored.width, 3]; it has the
/// sides swapped where swaps_sides() says so. REQUIRES: they do not overlap.
void turn_upright(std::span<const std::uint8_t> rgb, ImageSize stored, Orientation orientation,
                  std::span<std::uint8_t> upright);

}  // namespace pfc
