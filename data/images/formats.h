// The image formats of training data, behind one small contract, for decode.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/images/image_size.h"

namespace pfc {

/// Decodes one format. Belongs to one thread. Throws DamagedImage that says what is wrong.
class ImageFormat {
 public:
  virtual ~ImageFormat() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  /// The size that the header says, not checked.
  [[nodiscard]] virtual ImageSize size(std::span<const std::byte> encoded) = 0;
  /// The size that decode() gives where `wanted` is asked for: the image's own, or a smaller one
  /// that the format decodes at less cost, of at least `wanted` rows and columns.
  [[nodiscard]] virtual ImageSize reduced(ImageSize own, ImageSize /*wanted*/) { return own; }
  /// Fills rgb [size.height, size.width, 3]. REQUIRES: `size` is what reduced() has said, and
  /// within bounds.
  virtual void decode(std::span<const std::byte> encoded, ImageSize size,
                      std::span<std::uint8_t> rgb) = 0;
};

std::unique_ptr<ImageFormat> make_jpeg_format();
std::unique_ptr<ImageFormat> make_png_format();
std::unique_ptr<ImageFormat> make_webp_format();

}  // namespace pfc
