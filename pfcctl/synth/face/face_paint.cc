#include "pfcctl/synth/face/face_paint.h"

#include <cmath>

#include "pfcctl/synth/noise.h"

namespace pfc::synth {
namespace {

/// Returns 1 within `w` of a line at distance d, with a soft edge.
float stroke(float d, float w) { return ramp(w + 0.7f, w - 0.7f, std::abs(d)); }

}  // namespace

Paint FacePainter::plain(float x, float y, float redness) const {
  const Skin& s = who_.skin;
  const float grain = 0.05f * s.roughness * smooth_noise(x * 0.55f, y * 0.55f, s.texture) +
                      0.05f * smooth_noise(x * 0.09f, y * 0.09f, s.texture + 1);
  Paint paint{.albedo = s.base * (1 + grain), .gloss = 0.12f + 0.3f * s.oil};
  const Colour flushed = s.base * Colour{1.0f, 0.72f, 0.7f};
  cover(paint, flushed, clamp01(redness * s.redness));
  return paint;
}

Paint FacePainter::face(float x, float y) const {
  const float side = std::abs(x);
  const float flush = 0.9f * hill(side - 36, y - 34, 30, 24) +
                      0.9f * hill(x, y - who_.nose.length + 4, 17, 16) + 0.1f;
  Paint paint = plain(x, y, flush);
  paint.gloss *= 1 + 0.8f * hill(x, y - 25, 12, 35) + 0.6f * hill(x, y + 45, 40, 25);
  skin_marks(paint, x, y);
  folds(paint, x, y);
  beard(paint, x, y);
  nostrils(paint, x, y);
  lips(paint, x, y);
  eye(paint, x, y);
  brow(paint, x, y);
  return paint;
}

void FacePainter::skin_marks(Paint& paint, float x, float y) const {
  const Skin& s = who_.skin;
  if (s.freckles > 0) {
    const float where = hill(x, y - 25, 62, 34) + 0.4f * hill(x, y + 40, 55, 30);
    const float cell = 3.6f;
    const std::int32_t ix = floor_to_int(x / cell), iy = floor_to_int(y / cell);
    const float chance = lattice_value(ix, iy, s.texture + 2);
    const float cx =
        (static_cast<float>(ix) + 0.3f + 0.4f * lattice_value(ix, iy, s.texture + 3)) * cell;
    const float cy =
        (static_cast<float>(iy) + 0.3f + 0.4f * lattice_value(ix, iy, s.texture + 4)) * cell;
    if (chance < 0.75f * s.freckles * where) {
      cover(paint, s.base * Colour{0.62f, 0.45f, 0.34f}, 0.75f * hill(x - cx, y - cy, 2.1f, 2.1f));
    }
  }
  for (const Mole& m : who_.moles) {
    if (m.radius <= 0 || std::abs(x - m.x) > 5 || std::abs(y - m.y) > 5) continue;
    const float d = std::hypot(x - m.x, y - m.y);
    cover(paint, srgb(52, 30, 24), m.darkness * ramp(m.radius + 0.8f, m.radius - 0.8f, d));
  }
}

void FacePainter::folds(Paint& paint, float x, float y) const {
  const float side = std::abs(x), smile = std::max(0.f, expression_.smile);
  const Nose& n = who_.nose;
  const Mouth& m = who_.mouth;
  if (y > n.length - 12 && y < m.y + 16 && side < 50) {
    const Vec2 wing{n.wing_width + 2, n.length - 7};
    const Vec2 corner{m.half_width + 8 + 4 * smile, m.y - 2};
    const float t = clamp01((y - wing.y) / (corner.y - wing.y));
    const float fold_x = mix(wing.x, corner.x, t) + (6 + 4 * smile) * t * (1 - t) * 2;
    const float depth = clamp01(who_.skin.folds + 0.6f * smile) * ramp(-12, 2, y - wing.y) *
                        ramp(12, -4, y - corner.y);
    darken(paint, 0.26f * depth * hill(square((side - fold_x) / 4.5f)));
    const float round = std::hypot((side - n.wing_width * 0.7f) / 9, (y - n.length + 1) / 8);
    darken(paint, 0.3f * hill(square((round - 1) / 0.28f)) *
                      ramp(n.wing_width * 0.4f, n.wing_width, side));
  }
  if (who_.skin.wrinkles > 0.2f && y < -26 && y > -66 && side < 46) {
    const float wave = y + 1.5f * smooth_noise(x * 0.08f, 0, who_.skin.texture + 5);
    const float line = std::abs(std::remainder(wave, 9.f));
    darken(paint, 0.24f * who_.skin.wrinkles * stroke(line, 0.8f) * ramp(46, 25, side));
  }
  darken(paint, 0.13f * hill(x, y - m.y - m.lower - 7 - expression_.mouth_open, 20, 6));
}

void FacePainter::nostrils(Paint& paint, float x, float y) const {
  const Nose& n = who_.nose;
  const float dx = std::abs(x - who_.asymmetry) - n.wing_width * 0.46f;
  const float dy = y - n.length - 2 + 0.25f * dx;
  if (std::abs(dx) > 12 || std::abs(dy) > 8) return;
  const float r = std::hypot(dx / (5 * n.nostril), dy / 2.9f);
  cover(paint, who_.skin.base * Colour{0.16f, 0.08f, 0.07f}, 0.85f * ramp(1.25f, 0.6f, r));
  darken(paint, 0.25f * hill(x, y - n.length - 5, n.wing_width + 4, 6));
}

void FacePainter::lips(Paint& paint, float x, float y) const {
  const Mouth& m = who_.mouth;
  const float smile = expression_.smile;
  const float width = m.half_width * (1 + 0.14f * smile);
  const float b = (x - 0.5f * who_.asymmetry) / width;
  if (std::abs(b) >= 1.05f || y < m.y - 25 || y > m.y + 35) return;
  const float bow = std::max(0.f, 1 - b * b);
  const float thin = 1 - 0.2f * std::max(0.f, smile);
  const float line = m.y + (m.corner - 3.5f * smile) * b * b;
  const float gap = expression_.mouth_open * bow;
  const float upper_edge = line - 0.3f * gap, lower_edge = line + 0.7f * gap;
  const float dip = 1 - 0.38f * m.bow * hill(b / 0.22f, 0, 1, 1);
  const float top = upper_edge - m.upper * thin * dip * std::pow(bow, 0.75f);
  const float bottom = lower_edge + m.lower * thin * std::pow(bow, 0.65f);
  const float inside = ramp(top - 0.8f, top + 0.8f, y) * ramp(bottom + 0.9f, bottom - 0.9f, y);
  const Colour colour = m.lips * (y < line ? 0.82f : 1.f + 0.1f * ramp(lower_edge, bottom, y));
  cover(paint, colour, 0.88f * inside);
  paint.gloss += 0.35f * inside;
  open_mouth(paint, b, y, upper_edge, lower_edge);
  darken(paint, 0.65f * stroke(y - (upper_edge + lower_edge) / 2, 0.35f) *
                    ramp(1.05f, 0.95f, std::abs(b)) * ramp(3, 1, gap));
}

void FacePainter::open_mouth(Paint& paint, float b, float y, float upper_edge,
                             float lower_edge) const {
  const float gap = lower_edge - upper_edge;
  if (gap < 0.6f) return;
  const float hole =
      ramp(upper_edge - 0.5f, upper_edge + 0.5f, y) * ramp(lower_edge + 0.5f, lower_edge - 0.5f, y);
  cover(paint, srgb(58, 22, 22), hole);
  const float reach = std::min(gap * 0.75f, 6.f);
  const float teeth = ramp(upper_edge + reach + 0.6f, upper_edge + reach - 0.6f, y) *
                      (expression_.smile > 0.2f ? 1.f : 0.5f) * ramp(0.95f, 0.55f, std::abs(b));
  cover(paint, srgb(226, 218, 204), hole * teeth);
}

void FacePainter::beard(Paint& paint, float x, float y) const {
  const Beard& beard = who_.beard;
  if (y < 18 || beard.stubble + beard.moustache + beard.chin + beard.cheek <= 0) return;
  const float side = std::abs(x), open = expression_.mouth_open;
  const float lip_top = who_.mouth.y - who_.mouth.upper;
  const float above = 0.5f * (who_.nose.length + 4 + lip_top);
  const float moustache =
      ramp(1, 0.6f, std::hypot(x / (who_.mouth.half_width + 7), (y - above - 0.004f * x * x) / 9));
  const float chin = ramp(1, 0.7f, std::hypot(x / 30, (y - who_.face.chin_y + 6 - open) / 26));
  const float jaw = ramp(30, 42, side + 0.35f * (y - 60)) * ramp(14, 34, y) *
                    ramp(26, 36, side + 0.5f * (y - 40));
  const float grain = 0.75f + 0.25f * smooth_noise(x * 0.9f, y * 0.9f, who_.skin.texture + 6);
  const float area = std::max({moustache, chin, jaw});
  cover(paint, mix(who_.hair.colour, srgb(70, 74, 80), 0.5f) * 0.8f,
        0.4f * beard.stubble * area * grain);
  const float full = std::max({moustache * beard.moustache, chin * beard.chin, jaw * beard.cheek});
  const float strands = 0.8f + 0.35f * smooth_noise(x * 0.8f, y * 0.25f, who_.skin.texture + 7);
  cover(paint, who_.hair.colour * (0.75f * strands), clamp01(1.1f * full * grain));
  paint.gloss *= 1 - 0.8f * clamp01(full);
}

void FacePainter::eye(Paint& paint, float x, float y) const {
  const Eyes& e = who_.eyes;
  const float dx = std::abs(x) - e.spacing;  // > 0: towards the temple
  if (std::abs(dx) > 26 || std::abs(y) > 24) return;
  const float a = dx / e.half_width;
  const float ly = y + e.tilt * dx;
  const float arc = std::max(0.f, 1 - a * a);
  const float open = std::clamp(expression_.eyes_open, 0.05f, 1.15f);
  const float up = e.upper * open * arc * (1 + e.peak * a);
  const float low = e.lower * (0.5f + 0.5f * open) * std::pow(arc, 0.8f);
  darken(paint, 0.2f * hill(dx + 4, y + 4, 22, 14));
  darken(paint, 0.3f * e.bag * hill(dx, ly - e.lower - 5, e.half_width + 2, 6));
  const float along = ramp(1.25f, 0.9f, std::abs(a));
  darken(paint, 0.4f * along * stroke(ly + up + e.crease * (0.6f + 0.4f * arc), 0.8f));
  if (std::abs(a) < 1.1f) {
    const float inside = ramp(-up - 0.7f, -up + 0.7f, ly) * ramp(low + 0.7f, low - 0.7f, ly) *
                         ramp(1.02f, 0.93f, std::abs(a));
    if (inside > 0) {
      Paint ball;
      eyeball(ball, x, y, a, ly + up);
      cover(paint, ball.albedo, inside);
      paint.gloss = mix(paint.gloss, 0.7f, inside);
      paint.glow = ball.glow * inside;
    }
    const float lash = stroke(ly + up + 0.3f, 0.7f + 0.8f * e.lash);
    cover(paint, srgb(32, 22, 20), (0.45f + 0.5f * e.lash) * lash * ramp(1.12f, 0.9f, std::abs(a)));
    cover(paint, paint.albedo * 0.55f,
          0.5f * stroke(ly - low - 0.4f, 0.6f) * ramp(1.1f, 0.85f, std::abs(a)));
  }
}

void FacePainter::eyeball(Paint& paint, float x, float y, float across, float below_lid) const {
  const Eyes& e = who_.eyes;
  const float shade = (1 - 0.35f * across * across) * mix(0.5f, 1, ramp(0, 4, below_lid));
  paint.albedo = srgb(222, 214, 208) * shade;
  const float cx = std::copysign(e.spacing, x) + expression_.gaze.x;
  const float dx = x - cx, dy = y - expression_.gaze.y + 0.8f;
  const float r = std::hypot(dx, dy) / e.iris_radius;
  if (r > 1.2f) return;
  const float rays = 1 + 0.3f * smooth_noise(6 * std::atan2(dy, dx), 3 * r, who_.skin.texture + 8);
  const Colour iris =
      e.iris * (rays * mix(1.25f, 0.4f, ramp(0.65f, 1, r)) * mix(0.55f, 1, ramp(0, 4, below_lid)));
  cover(paint, iris, ramp(1.1f, 0.92f, r));
  cover(paint, srgb(10, 9, 9), ramp(0.5f, 0.32f, r));
  paint.glow = 0.8f * ramp(1.7f, 0.6f, std::hypot(dx + 1.6f, dy + 1.9f));
}

void FacePainter::brow(Paint& paint, float x, float y) const {
  const Brows& b = who_.brows;
  const float t = (std::abs(x) - b.inner) / (b.outer - b.inner);
  if (t < -0.1f || t > 1.05f || y < -45 || y > 0) return;
  const float centre = b.y - expression_.brow_raise + 2 -
                       b.arch * hill((t - 0.62f) / 0.75f, 0, 1, 1) + 3.5f * t * t -
                       b.tilt * 40 * (t - 0.5f);
  const float width = b.thickness * (1 - 0.7f * t * t) * ramp(-0.1f, 0.15f, t) + 0.2f;
  const float grain = smooth_noise(x * 0.9f + y * 0.5f, y * 0.5f, who_.skin.texture + 9);
  const float alpha = b.density * (0.85f + 0.2f * grain) *
                      ramp(width + 1, width - 1, std::abs(y - centre)) * ramp(1.05f, 0.85f, t);
  const Colour colour = mix(who_.hair.colour, srgb(40, 28, 22), 0.45f);
  cover(paint, colour * 0.8f, clamp01(alpha));
  paint.gloss *= 1 - 0.7f * clamp01(alpha);
}

}  // namespace pfc::synth
