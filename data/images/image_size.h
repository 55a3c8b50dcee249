// Height and width of an image.
#pragma once

#include <cstdint>

namespace pfc {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

}  // namespace pfc
