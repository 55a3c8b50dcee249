// Projects points of the head to the image: pose, perspective, and the alignment by a face
// detector's five landmarks.
#pragma once

#include <array>
#include <span>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/render/raster.h"

namespace pfc::synth {

/// Turns the head by the pose and projects it in perspective.
class View {
 public:
  explicit View(const Pose& pose);
  /// Head millimetres to the image plane's; z towards the camera.
  [[nodiscard]] Vec3 project(Vec3 p) const;

 private:
  std::array<Vec3, 3> rows_;
  float distance_;
};

/// The similarity that best lays the projected landmarks on ArcFace's 112 x 112 template (least
/// squares, Umeyama 1991), with the pose's jitter; for an image of `size` pixels a side.
ScreenMap align(const std::array<Vec3, 5>& projected, const Pose& pose, int size);

}  // namespace pfc::synth
