// Hair: the covered part of the head, thickness and colour.
#pragma once

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/face_paint.h"
#include "pfcctl/synth/face/head_shape.h"

namespace pfc::synth {

/// Does not own the identity and the capture. Constant after construction.
class HairStyle {
 public:
  HairStyle(const Identity& who, const Capture& capture) : who_(who), capture_(capture) {}

  /// Returns the distance below the hair's edge in millimetres; negative inside the hair.
  [[nodiscard]] float beyond_edge(Place place) const;
  [[nodiscard]] float thickness(Place place) const;
  [[nodiscard]] Paint paint(Place place) const;
  /// Returns the y of the lowest point of the hair.
  [[nodiscard]] float lowest() const;

 private:
  [[nodiscard]] float front_edge(float x) const;

  const Identity& who_;
  const Capture& capture_;
};

}  // namespace pfc::synth
