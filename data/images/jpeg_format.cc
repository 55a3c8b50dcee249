// Decodes JPEG with libjpeg-turbo.
#include <turbojpeg.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/formats.h"

namespace pfc {

namespace {

/// Returns whether the file has a single scan with all colours, and is not progressive. If the
/// decoder does not warn about such a file, its pixels are complete. Any other file may lack whole
/// scans at its end without a warning.
bool has_one_scan(std::span<const std::byte> jpeg) {
  constexpr unsigned kBaseline = 0xc0, kExtended = 0xc1, kLastFrame = 0xcf, kStartOfScan = 0xda;
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(jpeg[at]); };
  unsigned colours = 0;
  for (std::size_t at = 2; at + 10 <= jpeg.size();) {
    const unsigned marker = byte(at + 1);
    if (byte(at) != 0xff) return false;
    if (marker == 0xff) {  // padding before a marker
      ++at;
      continue;
    }
    if (marker == kBaseline || marker == kExtended) colours = byte(at + 9);
    if (marker == kStartOfScan) return byte(at + 4) == colours;
    const bool tables = marker == 0xc4 || marker == 0xc8 || marker == 0xcc;
    if (marker > kExtended && marker <= kLastFrame && !tables) return false;
    at += 2 + (byte(at + 2) << 8 | byte(at + 3));
  }
  return false;
}

bool has_end_marker(std::span<const std::byte> jpeg) {
  return jpeg.size() >= 2 && jpeg[jpeg.size() - 2] == std::byte{0xff} &&
         jpeg.back() == std::byte{0xd9};
}

class JpegFormat final : public ImageFormat {
 public:
  [[nodiscard]] const char* name() const override { return "JPEG"; }

  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded) override {
    if (!read_header(encoded)) fail();
    return {header_.height, header_.width};
  }

  /// With fewer DCT coefficients, a block of 8 x 8 pixels is decoded as a block of M x M.
  [[nodiscard]] ImageSize reduced(ImageSize own, ImageSize wanted) override {
    ImageSize best = own;
    for (const tjscalingfactor& factor : factors_) {
      const ImageSize scaled{TJSCALED(own.height, factor), TJSCALED(own.width, factor)};
      const bool enough = scaled.height >= wanted.height && scaled.width >= wanted.width;
      if (enough && scaled.height <= best.height && scaled.width <= best.width) best = scaled;
    }
    return best;
  }

  void decode(std::span<const std::byte> encoded, ImageSize size,
              std::span<std::uint8_t> rgb) override {
    if (try_to_decode(encoded, size, rgb)) return;
    if (has_end_marker(encoded) || !has_one_scan(encoded)) fail();
    // Some programs omit the end marker. If pixels are missing too, the decoder warns again.
    std::vector<std::byte> whole(encoded.begin(), encoded.end());
    whole.insert(whole.end(), {std::byte{0xff}, std::byte{0xd9}});
    if (!try_to_decode(whole, size, rgb)) fail();
  }

 private:
  bool try_to_decode(std::span<const std::byte> encoded, ImageSize size,
                     std::span<std::uint8_t> rgb) {
    if (decode_as(TJPF_RGB, encoded, size, rgb)) return true;
    const std::string reason = problem_;
    if (!is_cmyk(encoded)) {
      problem_ = reason;
      return false;
    }
    std::vector<std::uint8_t> inks(rgb.size() / 3 * 4);
    if (!decode_as(TJPF_CMYK, encoded, size, inks)) return false;
    for (std::size_t pixel = 0; pixel < rgb.size() / 3; ++pixel) {
      const std::uint8_t* const ink = &inks[4 * pixel];  // stored inverted: 255 is no ink
      for (std::size_t c = 0; c < 3; ++c) {
        rgb[3 * pixel + c] = static_cast<std::uint8_t>((ink[c] * ink[3] + 127) / 255);
      }
    }
    return true;
  }

  bool is_cmyk(std::span<const std::byte> encoded) {
    return read_header(encoded) && (header_.colours == TJCS_CMYK || header_.colours == TJCS_YCCK);
  }

  bool decode_as(int pixels, std::span<const std::byte> encoded, ImageSize size,
                 std::span<std::uint8_t> out) {
    // STOPONWARNING: do not train on a half-decoded face. LIMITSCANS limits the decoding time of a
    // malicious progressive file.
    constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    return worked(tjDecompress2(handle_.get(), data(encoded), encoded.size(), out.data(),
                                static_cast<int>(size.width), 0, static_cast<int>(size.height),
                                pixels, kFlags));
  }

  struct Destroy {
    void operator()(void* h) const { tjDestroy(h); }
  };
  using Handle = std::unique_ptr<void, Destroy>;

  static Handle make_handle() {
    Handle made(tjInitDecompress());
    check(made != nullptr, "libjpeg-turbo: no decompressor");
    return made;
  }
  static std::span<const tjscalingfactor> scaling_factors() {
    int count = 0;
    const tjscalingfactor* first = tjGetScalingFactors(&count);
    return {first, first == nullptr ? 0 : static_cast<std::size_t>(count)};
  }
  static const unsigned char* data(std::span<const std::byte> encoded) {
    return reinterpret_cast<const unsigned char*>(encoded.data());
  }
  bool read_header(std::span<const std::byte> encoded) {
    int subsampling = 0;
    return worked(tjDecompressHeader3(handle_.get(), data(encoded), encoded.size(), &header_.width,
                                      &header_.height, &subsampling, &header_.colours));
  }
  /// Returns whether a call has succeeded. Replaces the handle after a failure, because a handle
  /// that failed inside a header would continue there with the next image.
  bool worked(int result) {
    if (result == 0) return true;
    problem_ = tjGetErrorStr2(handle_.get());
    handle_ = make_handle();
    return false;
  }
  [[noreturn]] void fail() const { throw DamagedImage("a JPEG that cannot be read: " + problem_); }

  struct Header {
    int width = 0, height = 0, colours = 0;
  };
  Header header_;
  std::string problem_;  ///< why the last call failed
  Handle handle_ = make_handle();
  const std::span<const tjscalingfactor> factors_ = scaling_factors();
};

}  // namespace

std::unique_ptr<ImageFormat> make_jpeg_format() { return std::make_unique<JpegFormat>(); }

}  // namespace pfc
