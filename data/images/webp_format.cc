// Decodes WebP with libwebp.
#include <spdlog/fmt/fmt.h>
#include <webp/decode.h>

#include <span>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/formats.h"

namespace pfc {

namespace {

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "damaged data";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that libwebp does not support";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "truncated";
    default:
      return "invalid content";
  }
}

[[noreturn]] void fail_decoding(VP8StatusCode status) {
  throw DamagedImage(fmt::format("a WebP that cannot be read: {}", reason_of(status)));
}

const std::uint8_t* data(std::span<const std::byte> encoded) {
  return reinterpret_cast<const std::uint8_t*>(encoded.data());
}

class WebpFormat final : public ImageFormat {
 public:
  [[nodiscard]] const char* name() const override { return "WebP"; }

  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded) override {
    const WebPBitstreamFeatures found = features(encoded);
    return {found.height, found.width};
  }

  void decode(std::span<const std::byte> encoded, ImageSize size,
              std::span<std::uint8_t> rgb) override {
    const bool transparent = features(encoded).has_alpha != 0;
    WebPDecoderConfig config;
    check(WebPInitDecoderConfig(&config) != 0, "libwebp: header and library differ in version");
    const auto pixels = static_cast<std::size_t>(size.height * size.width);
    std::span<std::uint8_t> out = rgb;
    if (transparent) {
      rgba_.resize(pixels * 4);
      out = rgba_;
    }
    // Colours multiplied by alpha are colours blended with black.
    config.output.colorspace = transparent ? MODE_rgbA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out.data();
    config.output.u.RGBA.size = out.size();
    config.output.u.RGBA.stride = static_cast<int>(size.width) * (transparent ? 4 : 3);
    const VP8StatusCode status = WebPDecode(data(encoded), encoded.size(), &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK) fail_decoding(status);
    if (!transparent) return;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t c = 0; c < 3; ++c) rgb[3 * i + c] = rgba_[4 * i + c];
    }
    rgba_ = {};
  }

 private:
  static WebPBitstreamFeatures features(std::span<const std::byte> encoded) {
    WebPBitstreamFeatures found;
    const VP8StatusCode status = WebPGetFeatures(data(encoded), encoded.size(), &found);
    if (status != VP8_STATUS_OK) fail_decoding(status);
    if (found.has_animation != 0) throw DamagedImage("a WebP with several frames, expected one");
    return found;
  }

  std::vector<std::uint8_t> rgba_;
};

}  // namespace

std::unique_ptr<ImageFormat> make_webp_format() { return std::make_unique<WebpFormat>(); }

}  // namespace pfc
