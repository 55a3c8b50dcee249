// The shapes of an artificial person's portrait. Coordinates are pixels of an aligned face of
// 112 x 112, relative to the point between the eyes: x to the right, y down.
#pragma once

#include <cstdint>
#include <vector>

#include "pfcctl/synth/draw.h"
#include "pfcctl/synth/vec3.h"

namespace pfc::synth {

/// Random numbers of one image.
struct Draws {
  Draw identity;  ///< the same for all images of a person
  Draw image;
  float spread;  ///< scales the differences between identities; 1 is usual
  float vary;    ///< scales the differences between the images of one identity; 1 is usual

  float trait(float mean, float deviation) { return identity.normal(mean, spread * deviation); }
  /// Returns a trait in [0, 1].
  float share(float mean) { return clamp01(mean + spread * identity.uniform(-0.5f, 0.5f)); }
  float change(float deviation) { return image.normal(0, vary * deviation); }
  Vec3 colour() { return {image.uniform(), image.uniform(), image.uniform()}; }
};

enum class Surface : std::uint8_t { kPlain, kSkin, kHair };  ///< selects a texture

struct Style {
  float depth = 0;  ///< distance from the head's outline; a turned head shifts shapes by it
  float opacity = 1;
  float soft = 0.5f;  ///< half width of the edge, pixels
  float slope = 0;    ///< y grows by slope * x
  float bend = 0;     ///< the left and right end are lower by this
  float square = 0;   ///< 0: an ellipse; 1: nearly a rectangle
  float ring = 0;     ///< width of a ring as a fraction of the radius; 0: filled
  Surface surface = Surface::kPlain;
  int inside = -1;  ///< index of an earlier shape that clips this one; -1: none
};

/// A superellipse with a soft edge.
struct Shape {
  float x, y, rx, ry;
  Vec3 colour;
  Style style;
};

/// Returns the shapes of one image, from back to front.
std::vector<Shape> draw_portrait(Draws& draws);

}  // namespace pfc::synth
