#include "pfcctl/synth/render/renderer.h"

#include <cmath>

#include "pfcctl/synth/face/face_paint.h"
#include "pfcctl/synth/face/hair.h"
#include "pfcctl/synth/face/head_shape.h"
#include "pfcctl/synth/noise.h"
#include "pfcctl/synth/render/raster.h"
#include "pfcctl/synth/render/surfaces.h"
#include "pfcctl/synth/render/view.h"

namespace pfc::synth {
namespace {

class Shader {
 public:
  Shader(const Identity& who, const Capture& capture, const HairStyle& hair, const Raster& raster,
         float pixels_per_mm)
      : who_(who),
        capture_(capture),
        hair_(hair),
        painter_(who, capture.expression),
        raster_(raster),
        pixels_per_mm_(pixels_per_mm),
        halfway_(normalised(capture.light.direction + Vec3{0, 0, 1})) {}

  [[nodiscard]] Colour colour(int x, int y) const {
    const Fragment& f = raster_.at(x, y);
    if (f.material == Material::kNone) return backdrop(x, y);
    return lit(paint(f), f, x, y);
  }

 private:
  [[nodiscard]] Paint paint(const Fragment& f) const;
  [[nodiscard]] Colour lit(const Paint& paint, const Fragment& f, int x, int y) const;
  [[nodiscard]] float shadow(const Fragment& f, int x, int y) const;
  [[nodiscard]] Colour backdrop(int x, int y) const;

  const Identity& who_;
  const Capture& capture_;
  const HairStyle& hair_;
  FacePainter painter_;
  const Raster& raster_;
  float pixels_per_mm_;
  Vec3 halfway_;
};

Paint Shader::paint(const Fragment& f) const {
  const Wear& wear = capture_.wear;
  const float x = f.paint_x, y = f.place.y;
  const auto weave = [&](Colour c, float pitch) {
    return Paint{.albedo = c * (1 + 0.1f * std::sin(y * pitch)), .gloss = 0.03f};
  };
  switch (f.material) {
    case Material::kSkin:
      return painter_.face(x, y);
    case Material::kEar:
      return painter_.plain(x, y, 0.8f);
    case Material::kNeck: {
      if (y > who_.face.chin_y + 42) return weave(wear.clothes, 0.4f);
      return painter_.plain(x, y, 0.1f);
    }
    case Material::kMask:
      return weave(wear.mask_colour, 0.5f);
    case Material::kHat:
      return weave(wear.hat_colour, 1.4f);
    case Material::kHair:
      return hair_.paint(f.place);
    case Material::kFrame:
      return {.albedo = wear.frame, .gloss = 0.2f};
    case Material::kLens:
      return {.albedo = wear.lens * (1.3f - 0.02f * y), .gloss = 0.1f};
    case Material::kNone:
      break;
  }
  return {};
}

/// Marches towards the light through the depth buffer, for shadows of noses, brows and hats.
float Shader::shadow(const Fragment& f, int x, int y) const {
  constexpr int kSteps = 9;
  constexpr float kStep = 5;  // mm
  constexpr float kBias = 3;  // mm: prevents a surface from shading itself
  const Vec3 towards = capture_.light.direction * kStep;
  float depth = 0;
  for (int i = 1; i <= kSteps; ++i) {
    const float n = static_cast<float>(i);
    const int px = x + floor_to_int(towards.x * n * pixels_per_mm_ + 0.5f);
    const int py = y + floor_to_int(towards.y * n * pixels_per_mm_ + 0.5f);
    if (px < 0 || py < 0 || px >= raster_.width() || py >= raster_.height()) break;
    const float above = raster_.at(px, py).z - (f.z + towards.z * n + kBias);
    // The depth buffer does not show the back of an object far above, so it casts no shadow.
    if (above < 40) depth = std::max(depth, above);
  }
  return 1 - capture_.light.shadow * clamp01(depth / 5);
}

/// Applies wrapped diffuse light (skin lets red light through past the terminator), hemispheric
/// fill light and a Blinn-Phong highlight.
Colour Shader::lit(const Paint& paint, const Fragment& f, int x, int y) const {
  const Light& light = capture_.light;
  const Vec3 n = normalised(f.normal);
  const bool skin = f.material == Material::kSkin || f.material == Material::kEar;
  const Vec3 wrap = skin ? Vec3{0.32f, 0.18f, 0.14f} : Vec3{0.15f, 0.15f, 0.15f};
  const float facing = dot(n, light.direction);
  const float visible = facing > -0.3f ? shadow(f, x, y) : 0;
  const auto wrapped = [&](float w) { return std::max(0.f, (facing + w) / (1 + w)) * visible; };
  const Vec3 diffuse{wrapped(wrap.x), wrapped(wrap.y), wrapped(wrap.z)};
  const float fill = 0.6f + 0.4f * dot(n, light.fill_direction);
  const float highlight = std::max(0.f, dot(n, halfway_));
  const float h4 = square(square(highlight));
  const float gloss = paint.gloss * (skin ? 0.22f : 0.3f) * h4 * h4 * h4 * h4 * visible;
  return paint.albedo * (light.key * diffuse + light.fill * fill) +
         light.key * (gloss + paint.glow * 0.6f);
}

Colour Shader::backdrop(int x, int y) const {
  const Backdrop& b = capture_.backdrop;
  const float size = static_cast<float>(raster_.width());
  const float u = static_cast<float>(x) / size, v = static_cast<float>(y) / size;
  Colour colour = mix(b.top, b.bottom, v);
  if (b.pattern > 0) {
    const float shape =
        smooth_noise(u * 4, v * 4, b.seed) + 0.5f * smooth_noise(u * 9, v * 9, b.seed + 1);
    const float stripes = smooth_noise(u * 7, 0.5f, b.seed + 2);
    const Colour other{b.bottom.z, b.top.x, b.top.y};
    colour = mix(colour, other, b.pattern * 0.6f * ramp(0.1f, 0.3f, shape));
    colour = colour * (1 + 0.4f * b.pattern * ramp(0, 0.2f, stripes));
  }
  return colour;
}

/// Draws a hand or an object in front of the face over the finished picture.
void render_cover(const Wear& wear, Picture& picture) {
  if (wear.cover == HandShape::kNone) return;
  const float c = std::cos(wear.cover_turn), s = std::sin(wear.cover_turn);
  const bool hand = wear.cover == HandShape::kHand;
  for (int y = 0; y < picture.size; ++y) {
    for (int x = 0; x < picture.size; ++x) {
      const float size = static_cast<float>(picture.size);
      const float dx = static_cast<float>(x) / size - wear.cover_at.x;
      const float dy = static_cast<float>(y) / size - wear.cover_at.y;
      const float u = (c * dx + s * dy) / wear.cover_size.x;
      const float v = (c * dy - s * dx) / wear.cover_size.y;
      // A hand is four fingers side by side with rounded ends; an object is a rounded box.
      const float finger = u * 2 - static_cast<float>(floor_to_int(u * 2)) - 0.5f;
      const float end = hand ? 1 - 1.2f * square(finger) : 1;
      const float inside = ramp(1, 0.93f, std::abs(u)) * ramp(end, end - 0.05f, std::abs(v));
      const float shade = hand ? 1 - 1.5f * square(finger) : 1 + 0.2f * u;
      Colour& pixel = picture.at(x, y);
      pixel = mix(pixel, wear.cover_colour * (0.7f * shade), inside);
    }
  }
}

}  // namespace

Picture render(const Identity& who, const Capture& capture, int size) {
  const HeadShape shape(who, capture.expression, capture.wear);
  const HairStyle hair(who, capture);
  const View view(capture.pose);
  std::array<Vec3, 5> landmarks = shape.landmarks();
  for (Vec3& point : landmarks) point = view.project(point);
  const ScreenMap screen = align(landmarks, capture.pose, size);

  Raster raster(size, size);
  draw_surfaces({who, capture, shape, hair, view, screen}, raster);

  Picture picture(size);
  const Shader shader(who, capture, hair, raster, screen.scale());
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) picture.at(x, y) = shader.colour(x, y);
  }
  render_cover(capture.wear, picture);
  return picture;
}

}  // namespace pfc::synth
