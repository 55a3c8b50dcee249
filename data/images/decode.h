// Decodes images to RGB at the size for training, with libjpeg-turbo, libpng and libwebp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/images/exif.h"
#include "data/images/formats.h"
#include "data/images/image_size.h"

namespace pfc {

/// Maximum number of rows or columns, and of pixels, of an image. Without these limits, a small
/// file that claims a huge size would cause large allocations. Decoding uses 3 bytes per pixel, and
/// 6 more for a progressive JPEG.
inline constexpr std::int64_t kMaxDecodedSide = 16'384;
inline constexpr std::int64_t kMaxDecodedPixels = 50'000'000;
/// Maximum memory for pixels that a decoder keeps between images, in each of its two buffers: one
/// for the whole image, and one of ImageDecoder::decode_centre() for the resized image.
inline constexpr std::size_t kKeptPixelBytes = std::size_t{16} << 20;

/// Used by one thread, for many images. Throws DamagedImage that describes the problem; the caller
/// adds the name of the image. Checks sizes before allocating.
class ImageDecoder {
 public:
  ImageDecoder();

  /// Returns the size in the image's header, after rotation as in decode().
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded);
  /// Returns "JPEG", "PNG" or "WebP".
  [[nodiscard]] const char* format(std::span<const std::byte> encoded) {
    return format_of(encoded).name();
  }

  /// Fills rgb [wanted.height, wanted.width, 3]. Resizes an image of another size (resize.h). A
  /// much larger JPEG is first decoded at M/8 of its size, with the smallest M that is not smaller
  /// than `wanted`. Converts grey images to RGB, uses the upper 8 of 16 bits, and blends
  /// transparent pixels with black. Ignores a PNG's gAMA chunk, like OpenCV and Pillow. Decodes
  /// JPEG like OpenCV: accurate inverse DCT, smooth chroma upsampling, CMYK as stored by Adobe,
  /// and rotation by the Exif orientation (exif.h). A JPEG with a libjpeg-turbo warning
  /// (truncated, invalid entropy coding) is damaged, unless only its end marker is missing.
  void decode(std::span<const std::byte> encoded, ImageSize wanted, std::span<std::uint8_t> rgb);

  /// Fills rgb [wanted.height, wanted.width, 3] with a region of the image, resized (resize.h).
  /// `choose` returns the region for the image's own size. Decodes the whole image at that size.
  using ChooseRegion = std::function<ImageRegion(ImageSize own)>;
  void decode_region(std::span<const std::byte> encoded, const ChooseRegion& choose,
                     ImageSize wanted, std::span<std::uint8_t> rgb);
  /// Fills rgb [wanted.height, wanted.width, 3] with the centre of the image, whose shorter side is
  /// first resized to `shorter` pixels, like torchvision's Resize and CenterCrop. An image that
  /// would then have more than kMaxDecodedPixels is damaged. REQUIRES: both sides of `wanted` are
  /// at most `shorter`.
  void decode_centre(std::span<const std::byte> encoded, std::int64_t shorter, ImageSize wanted,
                     std::span<std::uint8_t> rgb);

  /// Decodes the image at its own size into rgb [height, width, 3], and returns that size.
  ImageSize decode_whole(std::span<const std::byte> encoded, std::vector<std::uint8_t>& rgb);

 private:
  ImageFormat& format_of(std::span<const std::byte> encoded) const;
  /// Same as decode() without the rotation.
  void decode_stored(ImageFormat& format, std::span<const std::byte> encoded, ImageSize wanted,
                     std::span<std::uint8_t> rgb);
  ImageSize bounded_size(ImageFormat& format, std::span<const std::byte> encoded);

  std::unique_ptr<ImageFormat> jpeg_, png_, webp_;
  std::vector<std::uint8_t> other_size_;  ///< pixels before resizing
  std::vector<std::uint8_t> resized_;     ///< pixels before the centre is taken
};

}  // namespace pfc
