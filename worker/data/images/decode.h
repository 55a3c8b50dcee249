// Encoded bytes to RGB pixels: JPEG with libjpeg-turbo, PNG with libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "worker/data/images/image_size.h"

namespace pfc {

/// Belongs to one thread and is meant to be used for many images. Throws DamagedImage that says
/// what is wrong with the image; the caller adds which image it is. Checks sizes before it
/// allocates, so a small file cannot make it allocate much.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// The size in the image's header.
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded);

  /// Fills rgb [height, width, 3]; an image of another size than `expected` is damaged. Grey images
  /// become RGB, 16 bits become 8, and transparent pixels are blended with black. JPEG is decoded
  /// as OpenCV does it: accurate inverse DCT, smooth chroma upsampling. An image where
  /// libjpeg-turbo would only warn (cut short, broken entropy coding) is damaged.
  void decode(std::span<const std::byte> encoded, ImageSize expected, std::span<std::uint8_t> rgb);

 private:
  struct Jpeg;
  std::unique_ptr<Jpeg> jpeg_;
};

}  // namespace pfc
