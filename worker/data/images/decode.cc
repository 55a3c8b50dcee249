#include "worker/data/images/decode.h"

#include <png.h>
#include <spdlog/fmt/fmt.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "common/error.h"
#include "worker/data/damaged_image.h"
#include "worker/data/records/property_file.h"

namespace pfc {

namespace {

bool begins_with(std::span<const std::byte> bytes, std::span<const std::uint8_t> signature) {
  return bytes.size() >= signature.size() &&
         std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

enum class Format { kJpeg, kPng };

Format format_of(std::span<const std::byte> encoded) {
  static constexpr std::array<std::uint8_t, 2> kJpegSignature{0xff, 0xd8};
  static constexpr std::array<std::uint8_t, 4> kPngSignature{0x89, 'P', 'N', 'G'};
  if (begins_with(encoded, kJpegSignature)) return Format::kJpeg;
  if (begins_with(encoded, kPngSignature)) return Format::kPng;
  std::string found;
  for (const std::byte b : encoded.first(std::min<std::size_t>(encoded.size(), 4))) {
    found += fmt::format("{:02x} ", static_cast<unsigned>(b));
  }
  throw DamagedImage(
      fmt::format("{} bytes that begin with {}are neither a JPEG (ff d8) nor a PNG "
                  "(89 50 4e 47)",
                  encoded.size(), found));
}

void require_size(const char* kind, ImageSize found, ImageSize expected) {
  if (found == expected) return;
  throw DamagedImage(fmt::format("a {} of {} x {}, expected {} x {} (height x width)", kind,
                                 found.height, found.width, expected.height, expected.width));
}

ImageSize bounded(const char* kind, ImageSize size) {
  const auto ok = [](std::int64_t side) { return side >= 1 && side <= kMaxImageSide; };
  if (ok(size.height) && ok(size.width)) return size;
  throw DamagedImage(fmt::format("a {} of {} x {} (height x width); sides are 1 .. {}", kind,
                                 size.height, size.width, kMaxImageSide));
}

/// libpng's simplified interface, which needs no setjmp here.
class Png {
 public:
  explicit Png(std::span<const std::byte> encoded) {
    image_.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image_, encoded.data(), encoded.size())) fail();
  }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

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

}  // namespace

struct ImageDecoder::Jpeg {
  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded) {
    int width = 0, height = 0, subsampling = 0, colours = 0;
    if (tjDecompressHeader3(handle_.get(), data(encoded), encoded.size(), &width, &height,
                            &subsampling, &colours) != 0) {
      fail();
    }
    return {height, width};
  }

  void decode(std::span<const std::byte> encoded, ImageSize size, std::uint8_t* rgb) {
    // STOPONWARNING: a half-decoded face would be trained on as if it were whole. LIMITSCANS bounds
    // the time that a hostile progressive file can take.
    constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle_.get(), data(encoded), encoded.size(), rgb,
                      static_cast<int>(size.width), 0, static_cast<int>(size.height), TJPF_RGB,
                      kFlags) != 0) {
      fail();
    }
  }

 private:
  struct Destroy {
    void operator()(void* h) const { tjDestroy(h); }
  };
  using Handle = std::unique_ptr<void, Destroy>;

  static Handle make_handle() {
    Handle made(tjInitDecompress());
    check(made != nullptr, "libjpeg-turbo: no decompressor");
    return made;
  }
  static const unsigned char* data(std::span<const std::byte> encoded) {
    return reinterpret_cast<const unsigned char*>(encoded.data());
  }
  [[noreturn]] void fail() {
    const std::string reason = tjGetErrorStr2(handle_.get());
    // A handle that failed inside a header would go on there with the next image.
    handle_ = make_handle();
    throw DamagedImage("a JPEG that does not decode: " + reason);
  }

  Handle handle_ = make_handle();
};

ImageDecoder::ImageDecoder() : jpeg_(std::make_unique<Jpeg>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

ImageSize ImageDecoder::size(std::span<const std::byte> encoded) {
  if (format_of(encoded) == Format::kPng) return bounded("PNG", Png(encoded).size());
  return bounded("JPEG", jpeg_->size(encoded));
}

void ImageDecoder::decode(std::span<const std::byte> encoded, ImageSize expected,
                          std::span<std::uint8_t> rgb) {
  check(rgb.size() == static_cast<std::size_t>(expected.height * expected.width * 3),
        "ImageDecoder: rgb is not [height, width, 3]");
  if (format_of(encoded) == Format::kPng) {
    Png png(encoded);
    require_size("PNG", png.size(), expected);
    png.read(rgb);
    return;
  }
  require_size("JPEG", jpeg_->size(encoded), expected);
  jpeg_->decode(encoded, expected, rgb.data());
}

}  // namespace pfc
