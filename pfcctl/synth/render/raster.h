// Triangle rasteriser with a depth buffer. Finds the nearest surface of every pixel with its
// material, its place on the head and its normal. Colours are computed afterwards, once per pixel.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pfcctl/synth/face/head_shape.h"
#include "pfcctl/synth/geometry.h"

namespace pfc::synth {

enum class Material : std::uint8_t { kNone, kSkin, kMask, kHair, kHat, kEar, kNeck, kFrame, kLens };

/// Camera space: x and y in millimetres of the image plane, z towards the camera.
struct Vertex {
  Vec3 at;
  Vec3 normal;
  Place place;        ///< on the head, for hair and hat
  float paint_x = 0;  ///< horizontal coordinate of the paint at this vertex
};

/// A surface of rows x columns vertices. Four neighbours form a quadrilateral.
struct Sheet {
  int rows = 0, columns = 0;
  std::vector<Vertex> vertices;

  [[nodiscard]] Vertex& at(int r, int c) {
    return vertices[static_cast<std::size_t>(r * columns + c)];
  }
  [[nodiscard]] const Vertex& at(int r, int c) const {
    return vertices[static_cast<std::size_t>(r * columns + c)];
  }
  /// Computes every normal from the neighbouring positions.
  void make_normals();
};

struct Fragment {
  float z = -1e9f;
  Material material = Material::kNone;
  Vec3 normal;
  Place place;
  float paint_x = 0;
};

/// Maps millimetres of the image plane to pixels by a similarity.
struct ScreenMap {
  float a = 1, b = 0;  ///< scale times cosine and sine
  Vec2 origin;

  [[nodiscard]] Vec2 operator()(float x, float y) const {
    return {a * x - b * y + origin.x, b * x + a * y + origin.y};
  }
  [[nodiscard]] float scale() const { return std::sqrt(a * a + b * b); }
};

class Raster {
 public:
  Raster(int width, int height)
      : width_(width),
        height_(height),
        pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

  /// Draws the sheet's fragments for which `keep` returns true, or all if `keep` is empty. `keep`
  /// may change a fragment's material.
  void draw(const Sheet& sheet, const ScreenMap& screen, Material material,
            const std::function<bool(Fragment&)>& keep = {});

  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] int height() const { return height_; }
  [[nodiscard]] const Fragment& at(int x, int y) const {
    return pixels_[static_cast<std::size_t>(y * width_ + x)];
  }

 private:
  struct Corner {
    Vec2 pixel;
    const Vertex* vertex;
  };
  void triangle(const Corner& a, const Corner& b, const Corner& c, Material material,
                const std::function<bool(Fragment&)>& keep);

  int width_, height_;
  std::vector<Fragment> pixels_;
};

}  // namespace pfc::synth
