// Encoded bytes to RGB pixels: JPEG with libjpeg-turbo, PNG with libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pfc {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// Belongs to one thread; made once and used for many images. Errors are DamagedImage that say what
/// is wrong with the image; its name is the caller's to add. Sizes are checked before memory is
/// taken, so a small file cannot ask for much.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// What the image's header says.
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded);

  /// Fills rgb [height, width, 3]. The image must have exactly that size. Grey becomes RGB; 16 bits
  /// become 8; transparency is shown on black. With the accurate inverse DCT and smooth chroma
  /// upsampling, as OpenCV decodes. Bytes that libjpeg-turbo would only warn about (a file cut
  /// short, broken entropy coding) are damage too.
  void decode(std::span<const std::byte> encoded, ImageSize expected, std::span<std::uint8_t> rgb);

 private:
  struct Jpeg;
  std::unique_ptr<Jpeg> jpeg_;
};

}  // namespace pfc
