// Draws a picture of an artificial person: soft ellipses with a texture, a warp, light and noise.
#pragma once

#include <cstdint>
#include <vector>

namespace pfc::synth {

/// An image with its JPEG quality.
struct Face {
  std::vector<std::uint8_t> rgb;  ///< [size, size, 3]
  int quality;                    ///< 1 .. 100
};

/// Draws image i of identity k, with eyes, nose and mouth near InsightFace's positions for aligned
/// faces. Pure and thread-safe. `difficulty`, 0 to 1, makes identities more alike and the images of
/// one identity more different.
Face draw_face(std::uint64_t seed, std::uint32_t k, std::uint32_t i, int size, float difficulty);

}  // namespace pfc::synth
