#include "pfcctl/synth/face.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "pfcctl/synth/portrait.h"

namespace pfc::synth {
namespace {

constexpr float kSide = 112;                      // pixels of an aligned face
constexpr float kMiddleX = 56, kMiddleY = 51.6f;  // the point between its eyes

/// Returns an identity's texture: a weighted sum of textures that all identities of a seed share.
/// x: brightness of skin, y: redness of skin, z: brightness of hair.
Field draw_texture(std::uint64_t seed, Draws& d) {
  Field texture(18, [] { return Vec3{}; });
  for (std::uint32_t shared = 0; shared < 6; ++shared) {
    const float weight = d.trait(0, 0.05f);
    Draw values(seed, Purpose::kTexture, shared);
    for (Vec3& value : texture.values) {
      const Vec3 next{values.uniform(-1, 1), values.uniform(-1, 1), values.uniform(-4, 4)};
      value = value + next * weight;
    }
  }
  return texture;
}

/// Computes the colour of each point of one image.
class Painter {
 public:
  /// pixel: width of the image's pixels in pixels of an aligned face.
  Painter(std::uint64_t seed, Draws& d, float pixel);
  /// Returns the colour at (x, y) of an aligned face.
  Vec3 colour(float x, float y);

 private:
  [[nodiscard]] float cover(const Shape& shape, float x, float y) const;
  [[nodiscard]] Vec3 paint(const Shape& shape, float x, float y) const;

  Field texture_, warp_, background_;
  float scale_, turn_, shift_x_, shift_y_;  ///< error of the alignment
  Vec3 balance_;                            ///< change of red and blue
  float gain_;
  float light_x_, light_y_, vignette_;  ///< gain to the right, gain downwards, loss at the edge
  float contrast_, saturation_;
  std::vector<Shape> shapes_;
  std::vector<float> covers_;  ///< opacity of each shape at the current point
};

Painter::Painter(std::uint64_t seed, Draws& d, float pixel)
    : texture_(draw_texture(seed, d)),
      warp_(5,
            [&] {
              return Vec3{d.trait(0, 1.3f), d.trait(0, 1.3f)};
            }),
      background_(6, [&] { return d.colour(); }),
      scale_(1 + d.change(0.03f)),
      turn_(d.change(0.035f)),
      shift_x_(d.change(1.3f)),
      shift_y_(d.change(1.3f)),
      balance_{d.change(0.06f), 0, d.change(0.08f)},
      gain_(std::exp2(d.change(0.3f))),
      light_x_(d.change(0.2f)),
      light_y_(d.change(0.12f)),
      vignette_(d.image.uniform(0, 0.3f)),
      contrast_(1 + d.change(0.12f)),
      saturation_(d.image.chance(0.04f) ? 0 : 1 + d.change(0.18f)),
      shapes_(draw_portrait(d)),
      covers_(shapes_.size()) {
  for (Vec3& v : warp_.values) v = v + Vec3{d.change(0.7f), d.change(0.7f)};
  const Vec3 wall = d.colour();
  for (Vec3& v : background_.values) v = mix(v, wall, 0.7f);
  const float blur = d.image.chance(0.35f) ? d.vary * d.image.uniform(0.3f, 1.4f) : 0;
  for (Shape& shape : shapes_) shape.style.soft += blur + pixel / 2;
}

Vec3 Painter::colour(float x, float y) {
  const float u = (x - kMiddleX - shift_x_) * scale_, v = (y - kMiddleY - shift_y_) * scale_;
  const Vec3 moved = warp_.at(x / kSide, y / kSide);
  const float face_x = u - turn_ * v + moved.x, face_y = v + turn_ * u + moved.y;
  Vec3 colour = background_.at(x / kSide, y / kSide);
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    covers_[i] = cover(shapes_[i], face_x, face_y);
    if (covers_[i] > 0) colour = mix(colour, paint(shapes_[i], face_x, face_y), covers_[i]);
  }
  const float right = 2 * x / kSide - 1, below = 2 * y / kSide - 1;
  const float light =
      1 + light_x_ * right + light_y_ * below - vignette_ * (right * right + below * below) / 2;
  colour = (colour + colour * balance_) * (gain_ * light);
  const float level = 0.3f * colour.x + 0.59f * colour.y + 0.11f * colour.z;
  return mix({0.45f, 0.45f, 0.45f}, mix({level, level, level}, colour, saturation_), contrast_);
}

/// Returns the opacity of a shape at (x, y), 0 to 1.
float Painter::cover(const Shape& shape, float x, float y) const {
  const Style& s = shape.style;
  const float edge = 2 * s.soft / std::min(shape.rx, shape.ry);  // half width, as squared radius
  const float dx = (x - shape.x) / shape.rx, across = dx * dx;
  if (across > 1 + edge) return 0;
  const float dy = (y - shape.y - s.slope * (x - shape.x) - s.bend * across) / shape.ry;
  const auto squared = [&](float q) { return q * (1 - s.square + s.square * q); };
  const float radius = squared(across) + squared(dy * dy);
  if (radius > 1 + edge) return 0;
  float opacity = s.opacity * ramp(1 + edge, 1 - edge, radius);
  if (s.ring > 0) opacity *= ramp(1 - 2 * s.ring - edge, 1 - 2 * s.ring + edge, radius);
  return s.inside < 0 ? opacity : opacity * covers_[static_cast<std::size_t>(s.inside)];
}

/// Returns the colour of a shape at (x, y).
Vec3 Painter::paint(const Shape& shape, float x, float y) const {
  const float u = (x + kMiddleX) / kSide, v = (y + kMiddleY) / kSide;
  if (shape.style.surface == Surface::kHair) {
    return shape.colour * (1 + texture_.at(u, v / 4).z);  // long strands
  }
  if (shape.style.surface == Surface::kPlain) return shape.colour;
  const Vec3 t = texture_.at(u, v);
  return shape.colour * Vec3{1 + t.x, 1 + t.x - t.y, 1 + t.x - t.y};
}

/// Returns a byte for a value in [0, 1] with noise. The noise is the sum of four random bytes,
/// whose standard deviation is 147.8.
std::uint8_t with_noise(float value, float deviation, std::uint32_t word) {
  const std::uint32_t sum =
      (word & 255) + ((word >> 8) & 255) + ((word >> 16) & 255) + (word >> 24);
  const float noise = deviation * (static_cast<float>(sum) - 510) / 147.8f;
  return static_cast<std::uint8_t>(255 * clamp01(value + noise));
}

}  // namespace

Face draw_face(std::uint64_t seed, std::uint32_t k, std::uint32_t i, int size, float difficulty) {
  Draws d{.identity = Draw(seed, Purpose::kIdentity, k),
          .image = Draw(seed, Purpose::kImage, k, i),
          .spread = 1 - 0.9f * difficulty,
          .vary = 1 + 0.9f * difficulty};
  const float pixel = kSide / static_cast<float>(size);
  Painter painter(seed, d, pixel);
  Face face{.rgb = {}, .quality = static_cast<int>(d.image.uniform(60, 96))};
  face.rgb.reserve(3 * static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  const float noise = d.vary * d.image.uniform(0.005f, 0.03f);
  const std::uint32_t noise_seed = d.image.word();
  for (std::uint32_t y = 0; y < static_cast<std::uint32_t>(size); ++y) {
    for (std::uint32_t x = 0; x < static_cast<std::uint32_t>(size); ++x) {
      const Vec3 c = painter.colour((static_cast<float>(x) + 0.5f) * pixel,
                                    (static_cast<float>(y) + 0.5f) * pixel);
      const Philox4 words = random_words(noise_seed, Stream::kSynth, y, x);
      for (const auto& [value, word] :
           {std::pair{c.x, words.x[0]}, {c.y, words.x[1]}, {c.z, words.x[2]}}) {
        face.rgb.push_back(with_noise(value, noise, word));
      }
    }
  }
  return face;
}

}  // namespace pfc::synth
