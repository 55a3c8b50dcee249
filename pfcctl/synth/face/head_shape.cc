#include "pfcctl/synth/face/head_shape.h"

#include <cmath>

namespace pfc::synth {
namespace {

std::array<Vec2, Curve::kPoints> outline(const FaceShape& f) {
  const float jaw_y = f.chin_y * 0.72f;
  return {{{HeadShape::kTop, 2},
           {-108, 38},
           {-88, f.temple * 0.86f},
           {-55, f.temple},
           {-20, f.temple + 1.5f},
           {22, f.cheek},
           {jaw_y * 0.75f, mix(f.cheek, f.jaw, 0.55f) + f.jowl},
           {jaw_y, f.jaw + f.jowl},
           {f.chin_y, f.chin},
           {f.chin_y + 10, 4}}};
}

std::array<Vec2, Curve::kPoints> profile(const FaceShape& f) {
  const float d = f.depth;
  return {{{HeadShape::kTop, 6},
           {-106, 46 * d},
           {-84, (72 + f.forehead * 0.5f) * d},
           {-52, (83 + f.forehead) * d},
           {-20, 85 * d},
           {15, 82 * d},
           {50, 84 * d},
           {f.chin_y * 0.75f, 85 * d},
           {f.chin_y, 76 * d},
           {f.chin_y + 10, 34}}};
}

}  // namespace

float Curve::at(float x) const {
  if (x <= points_.front().x) return points_.front().y;
  if (x >= points_.back().x) return points_.back().y;
  std::size_t i = 0;
  while (points_[i + 1].x < x) ++i;
  const Vec2 a = points_[i], b = points_[i + 1];
  const auto slope = [&](std::size_t k) {
    const Vec2 before = points_[k == 0 ? 0 : k - 1];
    const Vec2 after = points_[std::min(k + 1, kPoints - 1)];
    return (after.y - before.y) / (after.x - before.x);
  };
  const float h = b.x - a.x, t = (x - a.x) / h;
  const float t2 = t * t, t3 = t2 * t;
  return (2 * t3 - 3 * t2 + 1) * a.y + (t3 - 2 * t2 + t) * h * slope(i) + (3 * t2 - 2 * t3) * b.y +
         (t3 - t2) * h * slope(i + 1);
}

HeadShape::HeadShape(const Identity& who, const Expression& expression, const Wear& wear)
    : who_(who),
      mask_(wear.mask),
      bottom_(who.face.chin_y + 10),
      mouth_half_width_(who.mouth.half_width * (1 + 0.14f * expression.smile)),
      mouth_corner_y_(who.mouth.y + who.mouth.corner - 3.5f * expression.smile),
      half_width_(outline(who.face)),
      front_(profile(who.face)) {
  add_nose();
  add_features(expression);
}

void HeadShape::add_pair(Hill hill) {
  add(hill);
  hill.x = -hill.x;
  add(hill);
}

void HeadShape::add_nose() {
  const Nose& n = who_.nose;
  const float tip_y = n.length - 5 + n.tip_droop, side = who_.asymmetry;
  add({side, tip_y, n.tip_width, 10, n.tip_height * 0.3f});
  add({side + n.wing_width * 0.78f, n.length - 1, 9, 10, 9});
  add({side - n.wing_width * 0.78f, n.length - 1, 9, 10, 9});
}

void HeadShape::add_features(const Expression& expression) {
  const FaceShape& f = who_.face;
  const Eyes& e = who_.eyes;
  const Mouth& m = who_.mouth;
  const float open = expression.mouth_open, smile = std::max(0.f, expression.smile);
  add_pair({e.spacing - 3, 0, 25, 17, -f.socket});
  add_pair({e.spacing, 0.5f, 15, 10, 5});
  add_pair({30, who_.brows.y + 1, 28, 11, f.brow_ridge});
  add_pair({44, 30, 24, 20, f.cheekbone + 2 * smile});
  add_pair({24 + 4 * smile, 54, 13, 18, 2 * smile});
  add({0, m.y, 38, 28, m.fullness + 2});
  add({0, m.y - m.upper * 0.55f, m.half_width, m.upper * 1.3f, 2.2f});
  add({0, m.y + m.lower * 0.55f + open, m.half_width * 0.85f, m.lower * 1.2f, 3.2f});
  add({0, m.y + open * 0.5f, m.half_width, 2.5f + open * 0.7f, -2.5f - 0.4f * open});
  add({0, m.y + m.lower + 8 + open, 24, 7, -3});
  add({0, f.chin_y - 13, 24, 17, f.chin_bump});
  if (f.chin_cleft > 0) add({0, f.chin_y - 11, 5, 10, -f.chin_cleft * 1.5f});
  add({0, (who_.nose.length + m.y - m.upper) / 2, 5, 9, -1.2f});  // philtrum
}

/// Returns the height of the ridge, which rises to the tip and then falls steeply to the lip.
float HeadShape::nose_ridge(float x, float y) const {
  const Nose& n = who_.nose;
  const float tip = n.length - 5 + n.tip_droop;
  if (y < -16 || y > n.length + 8) return 0;
  const float along = clamp01((y + 6) / (tip + 6));
  float height = ramp(-16, 4, y) * mix(n.bridge_height, n.tip_height, along * along);
  height += n.hump * hill((along - 0.4f) / 0.35f, 0, 1, 1);
  if (y > tip) height *= ramp(n.length + 8, tip, y);
  const float width = mix(n.bridge_width, n.tip_width, along) * 1.35f;
  const float centre = who_.asymmetry * along;
  return height * hill(x - centre, 0, width, 1);
}

float HeadShape::relief(float x, float y) const {
  float height = nose_ridge(x, y);
  for (const Hill& h : hills_) height += h.height * hill(x - h.x, y - h.y, h.rx, h.ry);
  return height;
}

Vec3 HeadShape::egg(Place place) const {
  const float s = std::sin(place.angle), c = std::cos(place.angle);
  const float w = half_width_.at(place.y);
  // cos^0.8 flattens the front slightly; the back of the head is rounder and deeper.
  const float z = c > 0 ? front_.at(place.y) * std::pow(c, 0.8f) : 1.2f * w * c;
  return {w * s, place.y, z};
}

Vec3 HeadShape::skin(Place place) const {
  Vec3 p = egg(place);
  const float front = ramp(0.05f, 0.45f, std::cos(place.angle));
  if (front > 0) p.z += front * relief(p.x, p.y);
  if (mask_ && mask_covers(p.x, p.y)) {
    const float tent = 30 * hill(p.x, p.y - who_.nose.length - 4, 70, 62);
    p.z = std::max(p.z + 1, egg(place).z + front * (4 + tent));
  }
  return p;
}

Vec3 HeadShape::shell(Place place, float thickness) const {
  const float hanging_from = 5;
  Vec3 p = egg({place.angle, std::min(place.y, hanging_from)});
  const Vec3 outward = normalised({p.x, place.y < -60 ? (place.y + 60) * 1.3f : 0, p.z});
  p = p + outward * thickness;
  if (place.y > hanging_from) p.y += place.y - hanging_from;
  return p;
}

Vec3 HeadShape::face_point(float x, float y) const {
  const float s = std::clamp(x / half_width_.at(y), -0.98f, 0.98f);
  return skin({std::asin(s), y});
}

bool HeadShape::mask_covers(float x, float y) const {
  const float top = who_.nose.length * 0.45f + square(x / 62) * 10;
  const float bottom = who_.face.chin_y + 6 - square(x / 62) * 34;
  return y > top && y < bottom && std::abs(x) < 66;
}

std::array<Vec3, 5> HeadShape::landmarks() const {
  const float tip = who_.nose.length - 5 + who_.nose.tip_droop;
  return {face_point(-who_.eyes.spacing, 0), face_point(who_.eyes.spacing, 0),
          face_point(who_.asymmetry, tip), face_point(-mouth_half_width_, mouth_corner_y_),
          face_point(mouth_half_width_, mouth_corner_y_)};
}

}  // namespace pfc::synth
