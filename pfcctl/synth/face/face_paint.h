// Skin colours: tone, spots and freckles, lips, beard and folds.
#pragma once

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/identity.h"
#include "pfcctl/synth/geometry.h"

namespace pfc::synth {

struct Paint {
  Colour albedo;
  float gloss = 0.2f;  ///< strength of the highlight
  float glow = 0;      ///< brightness independent of the light: the glint in an eye
};

/// Blends `colour` over the paint.
inline void cover(Paint& paint, Colour colour, float alpha) {
  paint.albedo = mix(paint.albedo, colour, alpha);
}
inline void darken(Paint& paint, float amount) { paint.albedo = paint.albedo * (1 - amount); }

/// Does not own the identity. Constant after construction.
class FacePainter {
 public:
  FacePainter(const Identity& who, const Expression& expression)
      : who_(who), expression_(expression) {}

  /// Returns the paint at (x, y) of the face, millimetres.
  [[nodiscard]] Paint face(float x, float y) const;
  /// Returns plain skin, for ears and neck.
  [[nodiscard]] Paint plain(float x, float y, float redness) const;

 private:
  void skin_marks(Paint& paint, float x, float y) const;
  void folds(Paint& paint, float x, float y) const;
  void nostrils(Paint& paint, float x, float y) const;
  void lips(Paint& paint, float x, float y) const;
  void open_mouth(Paint& paint, float b, float y, float upper_edge, float lower_edge) const;
  void beard(Paint& paint, float x, float y) const;
  void eye(Paint& paint, float x, float y) const;
  void eyeball(Paint& paint, float x, float y, float across, float below_lid) const;
  void brow(Paint& paint, float x, float y) const;

  const Identity& who_;
  const Expression& expression_;
};

}  // namespace pfc::synth
