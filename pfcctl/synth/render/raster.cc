#include "pfcctl/synth/render/raster.h"

#include <algorithm>
#include <cmath>

namespace pfc::synth {

void Sheet::make_normals() {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const Vec3 down = at(std::min(r + 1, rows - 1), c).at - at(std::max(r - 1, 0), c).at;
      const Vec3 right = at(r, std::min(c + 1, columns - 1)).at - at(r, std::max(c - 1, 0)).at;
      at(r, c).normal = normalised(cross(right, down));
    }
  }
}

void Raster::draw(const Sheet& sheet, const ScreenMap& screen, Material material,
                  const std::function<bool(Fragment&)>& keep) {
  std::vector<Corner> corners;
  corners.reserve(sheet.vertices.size());
  for (const Vertex& v : sheet.vertices) corners.push_back({screen(v.at.x, v.at.y), &v});
  for (int r = 0; r + 1 < sheet.rows; ++r) {
    for (int c = 0; c + 1 < sheet.columns; ++c) {
      const auto i = static_cast<std::size_t>(r * sheet.columns + c);
      const std::size_t below = i + static_cast<std::size_t>(sheet.columns);
      triangle(corners[i], corners[i + 1], corners[below], material, keep);
      triangle(corners[i + 1], corners[below + 1], corners[below], material, keep);
    }
  }
}

void Raster::triangle(const Corner& a, const Corner& b, const Corner& c, Material material,
                      const std::function<bool(Fragment&)>& keep) {
  const float area = (b.pixel.x - a.pixel.x) * (c.pixel.y - a.pixel.y) -
                     (c.pixel.x - a.pixel.x) * (b.pixel.y - a.pixel.y);
  if (area <= 1e-6f) return;  // facing away or edge-on
  const auto [x0, x1] = std::minmax({a.pixel.x, b.pixel.x, c.pixel.x});
  const auto [y0, y1] = std::minmax({a.pixel.y, b.pixel.y, c.pixel.y});
  const int left = std::max(0, static_cast<int>(std::ceil(x0 - 0.5f)));
  const int right = std::min(width_ - 1, static_cast<int>(std::floor(x1 - 0.5f)));
  const int top = std::max(0, static_cast<int>(std::ceil(y0 - 0.5f)));
  const int bottom = std::min(height_ - 1, static_cast<int>(std::floor(y1 - 0.5f)));
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const float px = static_cast<float>(x) + 0.5f, py = static_cast<float>(y) + 0.5f;
      const float wb = ((px - a.pixel.x) * (c.pixel.y - a.pixel.y) -
                        (c.pixel.x - a.pixel.x) * (py - a.pixel.y)) /
                       area;
      const float wc = ((b.pixel.x - a.pixel.x) * (py - a.pixel.y) -
                        (px - a.pixel.x) * (b.pixel.y - a.pixel.y)) /
                       area;
      const float wa = 1 - wb - wc;
      if (wa < 0 || wb < 0 || wc < 0) continue;
      const Vertex &va = *a.vertex, &vb = *b.vertex, &vc = *c.vertex;
      Fragment& pixel = pixels_[static_cast<std::size_t>(y * width_ + x)];
      const float z = wa * va.at.z + wb * vb.at.z + wc * vc.at.z;
      if (z <= pixel.z) continue;
      Fragment f{.z = z,
                 .material = material,
                 .normal = va.normal * wa + vb.normal * wb + vc.normal * wc,
                 .place = {wa * va.place.angle + wb * vb.place.angle + wc * vc.place.angle,
                           wa * va.place.y + wb * vb.place.y + wc * vc.place.y},
                 .paint_x = wa * va.paint_x + wb * vb.paint_x + wc * vc.paint_x};
      if (!keep || keep(f)) pixel = f;
    }
  }
}

}  // namespace pfc::synth
