// Decodes PNG with libpng. Its simplified interface would be shorter, but changes the brightness
// of images with a gAMA chunk or 16 bits per channel, unlike other training programs.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <span>
#include <string>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/formats.h"

namespace pfc {

namespace {

/// Reads one image. libpng reports errors by longjmp(), so functions that call it have no
/// destructors to run.
class PngImage {
 public:
  explicit PngImage(std::span<const std::byte> encoded) : left_(encoded) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    check(png_ != nullptr, "libpng: no reader");
    info_ = png_create_info_struct(png_);
    if (info_ != nullptr && read_header()) return;
    png_destroy_read_struct(&png_, &info_, nullptr);
    fail();
  }
  ~PngImage() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  [[nodiscard]] ImageSize size() const {
    return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  void read(std::span<std::uint8_t> rgb) {
    if (!read_rows(rgb)) fail();
  }

 private:
  static PngImage& of(png_structp png) { return *static_cast<PngImage*>(png_get_error_ptr(png)); }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    std::array<char, 128>& problem = of(png).problem_;
    std::strncpy(problem.data(), message, problem.size() - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void on_read(png_structp png, png_bytep to, std::size_t bytes) {
    std::span<const std::byte>& left = of(png).left_;
    if (bytes > left.size()) png_error(png, "it is truncated");
    std::memcpy(to, left.data(), bytes);
    left = left.subspan(bytes);
  }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's interface
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    return true;
  }

  bool read_rows(std::span<std::uint8_t> rgb) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's interface
    const bool transparent = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0 ||
                             png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    png_set_expand(png_);  // expands palettes, fewer than 8 bits, transparency
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_gamma(png_, 1.0, 1.0);  // otherwise a gAMA chunk would affect blending
    const png_color_16 black{};
    if (transparent) png_set_background(png_, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    const png_uint_32 height = png_get_image_height(png_, info_);
    if (row_bytes * height != rgb.size()) png_error(png_, "its pixels are not RGB");
    for (int pass = 0; pass < passes; ++pass) {
      for (png_uint_32 y = 0; y < height; ++y) {
        png_read_row(png_, rgb.data() + y * row_bytes, nullptr);
      }
    }
    return true;
  }

  [[noreturn]] void fail() const {
    throw DamagedImage(std::string("a PNG that cannot be read: ") + problem_.data());
  }

  std::span<const std::byte> left_;  ///< unread bytes
  std::array<char, 128> problem_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
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
