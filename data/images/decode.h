// Encoded bytes to RGB pixels, at the size that training wants: JPEG with libjpeg-turbo, PNG with
// libpng, WebP with libwebp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/images/exif.h"
#include "data/images/formats.h"
#include "data/images/image_size.h"

namespace pfc {

/// The most rows or columns, and the most pixels, of an image that is decoded: a small file that
/// claims more cannot make a program allocate much. Decoding takes 3 bytes a pixel, of a
/// progressive JPEG 6 more.
inline constexpr std::int64_t kMaxDecodedSide = 16'384;
inline constexpr std::int64_t kMaxDecodedPixels = 50'000'000;

/// Belongs to one thread and is meant to be used for many images. Throws DamagedImage that says
/// what is wrong with the image; the caller adds which image it is. Checks sizes before it
/// allocates.
class ImageDecoder {
 public:
  ImageDecoder();

  /// The size in the image's header, upright as decode() gives it.
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded);
  /// "JPEG", "PNG" or "WebP".
  [[nodiscard]] const char* format(std::span<const std::byte> encoded) {
    return format_of(encoded).name();
  }

  /// Fills rgb [wanted.height, wanted.width, 3]. An image of another size is resized (resize.h); a
  /// JPEG that is much larger is decoded at M/8 of its size first, the smallest that is not smaller
  /// than `wanted`. Grey images become RGB, of 16 bits the upper 8 are taken, and transparent
  /// pixels are blended with black; a PNG's gAMA chunk is ignored, as OpenCV and Pillow do. JPEG is
  /// decoded as OpenCV does it: accurate inverse DCT, smooth chroma upsampling, CMYK as Adobe
  /// stores it, and rotated by its Exif orientation (exif.h). A JPEG with a libjpeg-turbo warning
  /// (truncated, broken entropy coding) is damaged, unless only its end marker is missing.
  void decode(std::span<const std::byte> encoded, ImageSize wanted, std::span<std::uint8_t> rgb);

  /// The image at its own size, rgb [height, width, 3].
  ImageSize decode_whole(std::span<const std::byte> encoded, std::vector<std::uint8_t>& rgb);

 private:
  ImageFormat& format_of(std::span<const std::byte> encoded) const;
  [[nodiscard]] Orientation orientation(const ImageFormat& format,
                                        std::span<const std::byte> encoded) const;
  /// decode() without the turn.
  void decode_stored(ImageFormat& format, std::span<const std::byte> encoded, ImageSize wanted,
                     std::span<std::uint8_t> rgb);
  ImageSize bounded_size(ImageFormat& format, std::span<const std::byte> encoded);

  std::unique_ptr<ImageFormat> jpeg_, png_, webp_;
  std::vector<std::uint8_t> other_size_;  ///< pixels before they are resized
};

}  // namespace pfc
