// Common interface of the image formats, used only by decode.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/images/image_size.h"

namespace pfc {

/// Decodes one format. Used by one thread. Throws DamagedImage that describes the problem.
class ImageFormat {
 public:
  virtual ~ImageFormat() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  /// Returns the size in the header, unchecked.
  [[nodiscard]] virtual ImageSize size(std::span<const std::byte> encoded) = 0;
  /// Returns the size at which decode() should run for `wanted`: the image's own, or a smaller one
  /// that is faster to decode and has at least `wanted` rows and columns.
  [[nodiscard]] virtual ImageSize reduced(ImageSize own, ImageSize /*wanted*/) { return own; }
  /// Fills rgb [size.height, size.width, 3]. REQUIRES: `size` is from reduced(), and within
  /// kMaxDecodedSide and kMaxDecodedPixels (decode.h).
  virtual void decode(std::span<const std::byte> encoded, ImageSize size,
                      std::span<std::uint8_t> rgb) = 0;
};

std::unique_ptr<ImageFormat> make_jpeg_format();
std::unique_ptr<ImageFormat> make_png_format();
std::unique_ptr<ImageFormat> make_webp_format();

}  // namespace pfc
