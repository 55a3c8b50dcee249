// Projects points of the head to the image: pose, perspective, and alignment by five landmarks.
#pragma once

#include <array>
#include <span>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/render/raster.h"

namespace pfc::synth {

/// Rotates the head by the pose and projects it in perspective.
class View {
 public:
  explicit View(const Pose& pose);
  /// Maps head millimetres to image plane millimetres; z points towards the camera.
  [[nodiscard]] Vec3 project(Vec3 p) const;

 private:
  std::array<Vec3, 3> rows_;
  float distance_;
};

/// Returns the similarity that best maps the projected landmarks to ArcFace's 112 x 112 template
/// (least squares, Umeyama 1991), plus the pose's jitter, for an image of `size` x `size` pixels.
ScreenMap align(const std::array<Vec3, 5>& projected, const Pose& pose, int size);

}  // namespace pfc::synth
