// The hair: which part of the head it covers, how thick it is, and its colour.
#pragma once

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/face_paint.h"
#include "pfcctl/synth/face/head_shape.h"

namespace pfc::synth {

/// Borrows the identity and the capture. Constant after construction.
class HairStyle {
 public:
  HairStyle(const Identity& who, const Capture& capture) : who_(who), capture_(capture) {}

  /// How far below the hair's edge a place lies (negative: inside the hair), millimetres.
  [[nodiscard]] float beyond_edge(Place place) const;
  [[nodiscard]] float thickness(Place place) const;
  [[nodiscard]] Paint paint(Place place) const;
  /// Lowest place that hair reaches.
  [[nodiscard]] float lowest() const;

 private:
  [[nodiscard]] float front_edge(float x) const;

  const Identity& who_;
  const Capture& capture_;
};

}  // namespace pfc::synth
