// PNG, with libpng.
#include <png.h>

#include <span>
#include <string>

#include "worker/data/damaged_image.h"
#include "worker/data/images/formats.h"

namespace pfc {

namespace {

/// libpng's simplified interface, which needs no setjmp here.
class PngImage {
 public:
  explicit PngImage(std::span<const std::byte> encoded) {
    image_.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image_, encoded.data(), encoded.size())) fail();
  }
  ~PngImage() { png_image_free(&image_); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  [[nodiscard]] ImageSize size() const { return {image_.height, image_.width}; }

  void read(std::span<std::uint8_t> rgb) {
    image_.format = PNG_FORMAT_RGB;
    const png_color black{0, 0, 0};
    if (!png_image_finish_read(&image_, &black, rgb.data(), 0, nullptr)) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw DamagedImage(std::string("a PNG that does not decode: ") + image_.message);
  }
  png_image image_{};
};

class PngFormat final : public ImageFormat {
 public:
  [[nodiscard]] const char* name() const override { return "PNG"; }
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded) override {
    return PngImage(encoded).size();
  }
  void decode(std::span<const std::byte> encoded, ImageSize /*size*/,
              std::span<std::uint8_t> rgb) override {
    PngImage(encoded).read(rgb);
  }
};

}  // namespace

std::unique_ptr<ImageFormat> make_png_format() { return std::make_unique<PngFormat>(); }

}  // namespace pfc
