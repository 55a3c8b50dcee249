// The surface of the head: an egg shaped by the identity, with hills and hollows for nose, eyes,
// cheeks, lips and chin.
#pragma once

#include <array>
#include <vector>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/identity.h"

namespace pfc::synth {

/// A Catmull-Rom curve through points with increasing x. Constant outside.
class Curve {
 public:
  static constexpr std::size_t kPoints = 10;
  explicit Curve(const std::array<Vec2, kPoints>& points) : points_(points) {}
  [[nodiscard]] float at(float x) const;

 private:
  std::array<Vec2, kPoints> points_;
};

/// A point on the head: `angle` around the vertical axis from the front (radians), `y` downwards.
struct Place {
  float angle = 0, y = 0;
};

class HeadShape {
 public:
  static constexpr float kTop = -117;

  HeadShape(const Identity& who, const Expression& expression, const Wear& wear);

  [[nodiscard]] float bottom() const { return bottom_; }

  /// Returns a point of the egg. Its x is the horizontal coordinate of all paint on the face.
  [[nodiscard]] Vec3 egg(Place place) const;
  /// Returns a point of the skin, or of the mask over it.
  [[nodiscard]] Vec3 skin(Place place) const;
  /// Returns a point `thickness` outside the egg; below the ears the shell hangs straight down.
  [[nodiscard]] Vec3 shell(Place place, float thickness) const;
  /// Returns the point of the skin at (x, y) of the face.
  [[nodiscard]] Vec3 face_point(float x, float y) const;

  /// Returns whether a mask is worn and covers this point of the face.
  [[nodiscard]] bool masked(float x, float y) const { return mask_ && mask_covers(x, y); }

  /// Returns eyes, nose tip and mouth corners, as face detectors find them.
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
