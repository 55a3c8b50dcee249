// The identity of a synthetic person: about seventy numbers for shape and colour, the same in all
// its images. Lengths are millimetres on the head (geometry.h).
#pragma once

#include <array>
#include <cstdint>

#include "pfcctl/synth/geometry.h"

namespace pfc::synth {

struct FaceShape {
  float temple, cheek, jaw, chin;  ///< half widths at the temples, cheekbones, jaw and chin
  float chin_y;                    ///< distance from the eyes down to the chin
  float depth;                     ///< of the face's front, relative
  float brow_ridge, cheekbone, chin_bump, chin_cleft, socket, jowl, forehead;
};

struct Eyes {
  float spacing;  ///< half the distance between the pupils
  float half_width, upper, lower;
  float tilt, peak;  ///< slope of the axis; position of the upper lid's highest point
  float crease, bag, lash;
  Colour iris;
  float iris_radius;
};

struct Brows {
  float y, inner, outer, thickness, arch, tilt, density;
};

struct Nose {
  float length, bridge_height, tip_height, bridge_width, tip_width, wing_width, hump, tip_droop;
  float nostril;
};

struct Mouth {
  float y, half_width, upper, lower, bow, corner, fullness;
  Colour lips;
};

struct Skin {
  Colour base;
  float redness;   ///< of cheeks, nose and ears
  float freckles;  ///< 0 none .. 1 many
  float roughness, wrinkles, folds, oil;
  std::uint32_t texture;  ///< seed of the pattern of spots and freckles
};

struct Mole {
  float x, y, radius, darkness;
};

struct Hair {
  Colour colour;
  float line;  ///< y of the hairline in the middle of the forehead
  float peak, recession, part, part_depth;
  float volume, curl, strand;
  float fringe, fringe_slant;  ///< distance that hair falls below the hairline
  float length;                ///< y at which hair at the sides ends
  float side;                  ///< how far it covers the cheeks, 0 .. 1
  float grey;
};

struct Beard {
  float stubble, moustache, chin, cheek;
};

struct Identity {
  FaceShape face;
  Eyes eyes;
  Brows brows;
  Nose nose;
  Mouth mouth;
  Skin skin;
  Hair hair;
  Beard beard;
  std::array<Mole, 5> moles;
  float ear_size, ear_out;
  float asymmetry;      ///< shifts the nose and mouth a little to one side
  float glasses_habit;  ///< probability of glasses in an image
  int glasses_style;
};

/// Draws identity k of a seed, independently of other identities.
Identity draw_identity(std::uint64_t seed, std::uint32_t k);

}  // namespace pfc::synth
