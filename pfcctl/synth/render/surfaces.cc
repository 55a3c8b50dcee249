#include "pfcctl/synth/render/surfaces.h"

#include <cmath>

namespace pfc::synth {
namespace {

constexpr float kPi = 3.14159265f;

/// Returns the angles of the head's columns: every 2 degrees in front, coarser behind.
const std::vector<float>& column_angles() {
  static const std::vector<float> kAngles = [] {
    std::vector<float> angles;
    for (float a = -140; a < -62; a += 6) angles.push_back(a * kPi / 180);
    for (float a = -62; a < 62; a += 2) angles.push_back(a * kPi / 180);
    for (float a = 62; a <= 140; a += 6) angles.push_back(a * kPi / 180);
    return angles;
  }();
  return kAngles;
}

/// Builds a sheet over the head from `top` to `bottom` by `step`; point(place) gives millimetres.
template <class Point>
Sheet head_sheet(const Scene& s, float top, float bottom, float step, const Point& point) {
  const std::vector<float>& angles = column_angles();
  Sheet sheet;
  sheet.columns = static_cast<int>(angles.size());
  sheet.rows = static_cast<int>((bottom - top) / step) + 2;
  sheet.vertices.reserve(static_cast<std::size_t>(sheet.rows * sheet.columns));
  for (int r = 0; r < sheet.rows; ++r) {
    const float y = std::min(bottom, top + static_cast<float>(r) * step);
    for (const float angle : angles) {
      const Place place{angle, y};
      sheet.vertices.push_back({.at = s.view.project(point(place)),
                                .normal = {},
                                .place = place,
                                .paint_x = s.shape.egg(place).x});
    }
  }
  sheet.make_normals();
  return sheet;
}

void draw_head(const Scene& s, Raster& raster) {
  const Sheet head = head_sheet(s, HeadShape::kTop, s.shape.bottom(), 2.6f,
                                [&](Place p) { return s.shape.skin(p); });
  raster.draw(head, s.screen, Material::kSkin, [&](Fragment& f) {
    if (s.shape.masked(f.paint_x, f.place.y)) f.material = Material::kMask;
    return true;
  });
}

void render_hair(const Scene& s, Raster& raster) {
  const Sheet hair = head_sheet(s, HeadShape::kTop, s.hair.lowest(), 5,
                                [&](Place p) { return s.shape.shell(p, s.hair.thickness(p)); });
  raster.draw(hair, s.screen, Material::kHair,
              [&](const Fragment& f) { return s.hair.beyond_edge(f.place) < 0; });
}

void draw_hat(const Scene& s, Raster& raster) {
  const float edge = s.capture.wear.hat_line;
  const auto line = [edge](float angle) { return edge + 22 * ramp(0.3f, 1.5f, std::abs(angle)); };
  const Sheet hat = head_sheet(s, HeadShape::kTop, edge + 24, 5, [&](Place p) {
    const float rolled = 5 * hill((p.y - line(p.angle) + 9) / 9, 0, 1, 1);
    return s.shape.shell(p, s.who.hair.volume * 0.5f + 7 + rolled);
  });
  raster.draw(hat, s.screen, Material::kHat,
              [&](const Fragment& f) { return f.place.y < line(f.place.angle); });
}

/// Builds slightly more than the front half of an ellipsoid.
Sheet ellipsoid(const Scene& s, Vec3 centre, Vec3 radii, float turn) {
  constexpr int kRows = 17, kColumns = 17;
  Sheet sheet{.rows = kRows, .columns = kColumns, .vertices = {}};
  for (int r = 0; r < kRows; ++r) {
    const float latitude = kPi * (static_cast<float>(r) / (kRows - 1) - 0.5f);
    for (int c = 0; c < kColumns; ++c) {
      const float longitude = 1.3f * kPi * (static_cast<float>(c) / (kColumns - 1) - 0.5f) + turn;
      const Vec3 unit{std::cos(latitude) * std::sin(longitude), std::sin(latitude),
                      std::cos(latitude) * std::cos(longitude)};
      const Vec3 at = centre + unit * radii;
      sheet.vertices.push_back(
          {.at = s.view.project(at), .normal = {}, .place = {longitude, at.y}, .paint_x = at.x});
    }
  }
  sheet.make_normals();
  return sheet;
}

void draw_ears(const Scene& s, Raster& raster) {
  const float size = s.who.ear_size;
  for (const float side : {-1.f, 1.f}) {
    Vec3 at = s.shape.egg({side * 1.62f, 14});
    at.x += side * (s.who.ear_out - 3);
    raster.draw(ellipsoid(s, at, {9, 31 * size, 14 * size}, side * 0.9f), s.screen, Material::kEar);
  }
}

void draw_neck(const Scene& s, Raster& raster) {
  const float width = s.who.face.jaw * 0.95f;
  const float top = s.shape.bottom() - 55;
  const Sheet neck = head_sheet(s, top, top + 170, 12, [&](Place p) {
    const float flare = 90 * ramp(top + 85, top + 170, p.y);
    return Vec3{(width + flare) * std::sin(p.angle), p.y, (width * 0.9f) * std::cos(p.angle) - 12};
  });
  raster.draw(neck, s.screen, Material::kNeck);
}

/// Draws a flat band between two closed outlines of kPoints points each.
template <class Inner, class Outer>
void draw_band(const Scene& s, Raster& raster, Material material, const Inner& inner,
               const Outer& outer) {
  constexpr int kPoints = 28;
  Sheet band{.rows = 2, .columns = kPoints + 1, .vertices = {}};
  for (const bool outside : {true, false}) {
    for (int i = 0; i <= kPoints; ++i) {
      const float t = 2 * kPi * static_cast<float>(i) / kPoints;
      const Vec3 at = outside ? outer(t) : inner(t);
      band.vertices.push_back(
          {.at = s.view.project(at), .normal = {0, -0.3f, 0.95f}, .place = {}, .paint_x = at.x});
    }
  }
  raster.draw(band, s.screen, material);
}

void draw_glasses(const Scene& s, Raster& raster) {
  const Wear& wear = s.capture.wear;
  const int style = s.who.glasses_style;
  const float rx = style == 1 ? 24.f : 26.f;
  const float ry = style == 0 ? 15.f : style == 1 ? 21.f : 18.f;
  const float power = style == 1 ? 1.f : 0.6f;  // round or nearly square
  const float thick = style == 2 ? 1.6f : 2.6f;
  const float z = s.shape.face_point(0, 0).z + 5;
  const auto rim = [&](float centre, float grow) {
    return [=](float t) {
      const float c = std::cos(t), d = std::sin(t);
      const float x = std::copysign(std::pow(std::abs(c), power), c) * (rx + grow);
      const float y = std::copysign(std::pow(std::abs(d), power), d) * (ry + grow);
      return Vec3{centre + x, 3 + y, z - 0.0042f * square(centre + x)};
    };
  };
  for (const float side : {-1.f, 1.f}) {
    const float centre = side * (s.who.eyes.spacing + 2);
    draw_band(s, raster, Material::kFrame, rim(centre, -thick), rim(centre, thick));
    if (wear.sunglasses) draw_band(s, raster, Material::kLens, rim(centre, -rx), rim(centre, 0));
    Sheet arm{.rows = 2, .columns = 2, .vertices = {}};
    const Vec3 front{centre + side * rx, -3, z - 0.0042f * square(rx + s.who.eyes.spacing)};
    const Vec3 back{side * (s.who.face.temple + 6), -3, -10};
    const Vec3 left = side < 0 ? back : front, right = side < 0 ? front : back;
    for (const float dy : {-2.f, 2.f}) {
      for (const Vec3& at : {left, right}) {
        arm.vertices.push_back({.at = s.view.project(at + Vec3{0, dy, 0}),
                                .normal = {side, 0, 0.3f},
                                .place = {},
                                .paint_x = 0});
      }
    }
    raster.draw(arm, s.screen, Material::kFrame);
  }
  const float gap = s.who.eyes.spacing + 2 - rx;
  draw_band(
      s, raster, Material::kFrame,
      [&](float) {
        return Vec3{0, 1, z + 1};
      },
      [&](float t) {
        return Vec3{std::cos(t) * (gap + 2), 1 + 2.2f * std::sin(t), z + 1};
      });
}

}  // namespace

void draw_surfaces(const Scene& scene, Raster& raster) {
  draw_head(scene, raster);
  draw_neck(scene, raster);
  draw_ears(scene, raster);
  render_hair(scene, raster);
  if (scene.capture.wear.hat) draw_hat(scene, raster);
  if (scene.capture.wear.glasses || scene.capture.wear.sunglasses) draw_glasses(scene, raster);
}

}  // namespace pfc::synth
