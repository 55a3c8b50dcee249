// Differences between photographs of one person: pose, expression, light, worn things, objects in
// front of the face, background and camera. Only the frequency of glasses depends on the identity.
#pragma once

#include <cstdint>

#include "pfcctl/synth/face/identity.h"
#include "pfcctl/synth/geometry.h"

namespace pfc::synth {

struct Pose {
  float yaw, pitch, roll;  ///< radians; yaw > 0: turned to the viewer's right
  float distance;          ///< of the camera, millimetres; sets the perspective
  Vec2 shift;              ///< of the aligned crop, pixels; error of a face detector
  float scale, turn;       ///< the same error in scale (relative) and rotation (radians)
};

struct Expression {
  float smile;       ///< -0.5 .. 1
  float mouth_open;  ///< millimetres
  float eyes_open;   ///< 0 shut .. 1 as the identity has them
  float brow_raise;  ///< millimetres
  Vec2 gaze;         ///< of the irises, millimetres
};

struct Light {
  Vec3 direction;    ///< towards the main light
  Colour key, fill;  ///< main light and ambient light
  Vec3 fill_direction;
  float shadow;  ///< strength of cast shadows, 0 .. 1
};

enum class HandShape : std::uint8_t { kNone, kHand, kObject };

struct Wear {
  bool glasses = false, sunglasses = false, mask = false, hat = false;
  Colour frame, lens, mask_colour, hat_colour, clothes;
  float hat_line = 0;  ///< y of the hat's edge
  HandShape cover = HandShape::kNone;
  Vec2 cover_at, cover_size;  ///< relative to the image size
  float cover_turn = 0;
  Colour cover_colour;
};

struct Backdrop {
  Colour top, bottom;
  float pattern;  ///< strength of shapes behind the person
  std::uint32_t seed;
};

struct Camera {
  float exposure, contrast, saturation;
  Colour balance;
  float blur;                 ///< sigma, pixels
  float motion, motion_turn;  ///< length in pixels, direction
  float coarseness;           ///< pixels averaged to one; 1: none
  float noise;                ///< standard deviation; white is 1
  float vignette;
  bool grey;
  int jpeg_quality;
  std::uint32_t noise_seed;
};

struct Capture {
  Pose pose;
  Expression expression;
  Light light;
  Wear wear;
  Backdrop backdrop;
  Camera camera;
  float hair_shift, hair_mess;  ///< position of the fringe in this photograph
};

/// Draws image i of identity k.
Capture draw_capture(std::uint64_t seed, std::uint32_t k, std::uint32_t i, const Identity& who);

}  // namespace pfc::synth
