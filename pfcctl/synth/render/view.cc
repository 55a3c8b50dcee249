#include "pfcctl/synth/render/view.h"

#include <cmath>

namespace pfc::synth {
namespace {

/// Eyes, nose tip and mouth corners of InsightFace's alignment template (face_align.py).
constexpr std::array<Vec2, 5> kTemplate{{{38.2946f, 51.6963f},
                                         {73.5318f, 51.5014f},
                                         {56.0252f, 71.7366f},
                                         {41.5493f, 92.3655f},
                                         {70.7299f, 92.2041f}}};
constexpr float kTemplateSize = 112;
/// The neck's pivot, about which the head turns.
constexpr Vec3 kPivot{0, 30, -20};

}  // namespace

View::View(const Pose& pose) : distance_(pose.distance) {
  const float cy = std::cos(pose.yaw), sy = std::sin(pose.yaw);
  const float cp = std::cos(pose.pitch), sp = std::sin(pose.pitch);
  const float cr = std::cos(pose.roll), sr = std::sin(pose.roll);
  // roll (about z) after pitch (about x) after yaw (about y)
  const Vec3 x{cy, 0, sy}, y{sp * sy, cp, -sp * cy}, z{-cp * sy, sp, cp * cy};
  rows_ = {x * cr - y * sr, x * sr + y * cr, z};
}

Vec3 View::project(Vec3 p) const {
  const Vec3 q = p - kPivot;
  const Vec3 turned{dot(rows_[0], q), dot(rows_[1], q), dot(rows_[2], q)};
  const float nearer = distance_ / (distance_ - turned.z);
  return {turned.x * nearer, turned.y * nearer, turned.z};
}

ScreenMap align(const std::array<Vec3, 5>& projected, const Pose& pose, int size) {
  Vec2 from{}, to{};
  for (std::size_t i = 0; i < projected.size(); ++i) {
    from = {from.x + projected[i].x / 5, from.y + projected[i].y / 5};
    to = {to.x + kTemplate[i].x / 5, to.y + kTemplate[i].y / 5};
  }
  float real = 0, imaginary = 0, norm = 0;  // least squares over complex numbers
  for (std::size_t i = 0; i < projected.size(); ++i) {
    const float px = projected[i].x - from.x, py = projected[i].y - from.y;
    const float qx = kTemplate[i].x - to.x, qy = kTemplate[i].y - to.y;
    real += px * qx + py * qy;
    imaginary += px * qy - py * qx;
    norm += px * px + py * py;
  }
  const float to_size = static_cast<float>(size) / kTemplateSize;
  const float factor = pose.scale * to_size / norm;
  const float c = std::cos(pose.turn), s = std::sin(pose.turn);
  ScreenMap map{.a = factor * (real * c - imaginary * s),
                .b = factor * (real * s + imaginary * c),
                .origin = {}};
  const Vec2 centre = map(from.x, from.y);
  map.origin = {(to.x + pose.shift.x) * to_size - centre.x,
                (to.y + pose.shift.y) * to_size - centre.y};
  return map;
}

}  // namespace pfc::synth
