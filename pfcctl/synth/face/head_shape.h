// The head as a surface: an egg whose outline and depth the identity gives, with hills and hollows
// for nose, eyes, cheeks, lips and chin.
#pragma once

#include <array>
#include <vector>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/identity.h"

namespace pfc::synth {

/// A curve through points (Catmull-Rom); x rises. Constant outside.
class Curve {
 public:
  static constexpr std::size_t kPoints = 10;
  explicit Curve(const std::array<Vec2, kPoints>& points) : points_(points) {}
  [[nodiscard]] float at(float x) const;

 private:
  std::array<Vec2, kPoints> points_;
};

/// A place on the head: `angle` around the vertical axis from the front (radians), `y` downwards.
struct Place {
  float angle = 0, y = 0;
};

class HeadShape {
 public:
  static constexpr float kTop = -117;

  HeadShape(const Identity& who, const Expression& expression, const Wear& wear);

  [[nodiscard]] float bottom() const { return bottom_; }

  /// The egg alone; its x is the horizontal coordinate of everything painted on the face.
  [[nodiscard]] Vec3 egg(Place place) const;
  /// The skin, or the mask over it.
  [[nodiscard]] Vec3 skin(Place place) const;
  /// A shell around the head, `thickness` outside the egg; below the ears it hangs straight down.
  [[nodiscard]] Vec3 shell(Place place, float thickness) const;
  /// The skin in front of (x, y) of the face.
  [[nodiscard]] Vec3 face_point(float x, float y) const;

  /// Is a mask worn, and does it lie over this place of the face?
  [[nodiscard]] bool masked(float x, float y) const { return mask_ && mask_covers(x, y); }

  /// Eyes, nose tip and mouth corners, as face detectors find them.
  [[nodiscard]] std::array<Vec3, 5> landmarks() const;

 private:
  struct Hill {
    float x, y, rx, ry, height;
  };
  void add(Hill hill) { hills_.push_back(hill); }
  void add_pair(Hill hill);
  void add_nose();
  void add_features(const Expression& expression);
  [[nodiscard]] float relief(float x, float y) const;
  [[nodiscard]] float nose_ridge(float x, float y) const;
  [[nodiscard]] bool mask_covers(float x, float y) const;

  const Identity& who_;
  bool mask_;
  float bottom_;
  float mouth_half_width_;
  float mouth_corner_y_;
  Curve half_width_;
  Curve front_;
  std::vector<Hill> hills_;
};

}  // namespace pfc::synth
