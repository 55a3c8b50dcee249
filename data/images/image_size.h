// Height and width of an image, and a part of it.
#pragma once

#include <cstdint>

namespace pfc {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// A rectangle of pixels: rows top .. top + height - 1, columns left .. left + width - 1.
struct ImageRegion {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  [[nodiscard]] ImageSize size() const { return {height, width}; }
  friend bool operator==(const ImageRegion&, const ImageRegion&) = default;
};

}  // namespace pfc
