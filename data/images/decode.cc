#include "data/images/decode.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/resize.h"

namespace pfc {

namespace {

using namespace std::string_view_literals;

bool has(std::span<const std::byte> bytes, std::size_t at, std::string_view signature) {
  return bytes.size() >= at + signature.size() &&
         std::memcmp(bytes.data() + at, signature.data(), signature.size()) == 0;
}

[[noreturn]] void fail_of_unknown_format(std::span<const std::byte> encoded) {
  std::string found;
  for (const std::byte b : encoded.first(std::min<std::size_t>(encoded.size(), 4))) {
    found += fmt::format("{:02x} ", static_cast<unsigned>(b));
  }
  if (encoded.empty()) throw DamagedImage("0 bytes, expected an image");
  throw DamagedImage(fmt::format(
      "{} bytes that begin with {}are neither a JPEG (ff d8) nor a PNG (89 50 4e 47) nor a WebP "
      "(52 49 46 46)",
      encoded.size(), found));
}

ImageSize turned(ImageSize size, Orientation orientation) {
  return swaps_sides(orientation) ? ImageSize{size.width, size.height} : size;
}

std::size_t rgb_bytes(ImageSize size) {
  return static_cast<std::size_t>(size.height * size.width * 3);
}

/// Frees the memory for pixels if it is large, because few images need so much.
void free_if_large(std::vector<std::uint8_t>& pixels) {
  if (pixels.capacity() > kKeptPixelBytes) pixels = {};
}

}  // namespace

ImageDecoder::ImageDecoder()
    : jpeg_(make_jpeg_format()), png_(make_png_format()), webp_(make_webp_format()) {}

ImageFormat& ImageDecoder::format_of(std::span<const std::byte> encoded) const {
  if (has(encoded, 0, "\xff\xd8"sv)) return *jpeg_;
  if (has(encoded, 0, "\x89PNG"sv)) return *png_;
  if (has(encoded, 0, "RIFF"sv) && has(encoded, 8, "WEBP"sv)) return *webp_;
  fail_of_unknown_format(encoded);
}

ImageSize ImageDecoder::bounded_size(ImageFormat& format, std::span<const std::byte> encoded) {
  const ImageSize size = format.size(encoded);
  const auto ok = [](std::int64_t side) { return side >= 1 && side <= kMaxDecodedSide; };
  if (ok(size.height) && ok(size.width) && size.height * size.width <= kMaxDecodedPixels) {
    return size;
  }
  throw DamagedImage(
      fmt::format("a {} of {} x {} (height x width); expected sides of 1 .. {}, at most {} pixels",
                  format.name(), size.height, size.width, kMaxDecodedSide, kMaxDecodedPixels));
}

ImageSize ImageDecoder::size(std::span<const std::byte> encoded) {
  ImageFormat& format = format_of(encoded);
  return turned(bounded_size(format, encoded), orientation_of(encoded));
}

void ImageDecoder::decode(std::span<const std::byte> encoded, ImageSize wanted,
                          std::span<std::uint8_t> rgb) {
  check(rgb.size() == rgb_bytes(wanted), "ImageDecoder: rgb is not [height, width, 3]");
  ImageFormat& format = format_of(encoded);
  const Orientation turn = orientation_of(encoded);
  if (turn == Orientation::kUpright) return decode_stored(format, encoded, wanted, rgb);
  const ImageSize stored = turned(wanted, turn);
  std::vector<std::uint8_t> pixels(rgb.size());
  decode_stored(format, encoded, stored, pixels);
  turn_upright(pixels, stored, turn, rgb);
}

void ImageDecoder::decode_stored(ImageFormat& format, std::span<const std::byte> encoded,
                                 ImageSize wanted, std::span<std::uint8_t> rgb) {
  const ImageSize own = bounded_size(format, encoded);
  if (own == wanted) {
    format.decode(encoded, own, rgb);
    return;
  }
  const ImageSize reduced = format.reduced(own, wanted);
  if (reduced == wanted) {
    format.decode(encoded, reduced, rgb);
    return;
  }
  other_size_.resize(rgb_bytes(reduced));
  format.decode(encoded, reduced, other_size_);
  resize_rgb(other_size_, reduced, wanted, rgb);
  free_if_large(other_size_);
}

void ImageDecoder::decode_region(std::span<const std::byte> encoded, const ChooseRegion& choose,
                                 ImageSize wanted, std::span<std::uint8_t> rgb) {
  const ImageSize own = decode_whole(encoded, other_size_);
  const ImageRegion region = choose(own);
  const auto part = std::span(other_size_).first(rgb_bytes(region.size()));
  copy_region(other_size_, own, region, part);
  resize_rgb(part, region.size(), wanted, rgb);
  free_if_large(other_size_);
}

void ImageDecoder::decode_centre(std::span<const std::byte> encoded, std::int64_t shorter,
                                 ImageSize wanted, std::span<std::uint8_t> rgb) {
  const ImageSize own = decode_whole(encoded, other_size_);
  const std::int64_t side = std::min(own.height, own.width);
  const ImageSize resized{shorter * own.height / side, shorter * own.width / side};
  if (resized.height * resized.width > kMaxDecodedPixels) {
    throw DamagedImage(fmt::format(
        "an image of {} x {} (height x width) would be {} x {} if its shorter side had {} pixels; "
        "expected at most {} pixels in total",
        own.height, own.width, resized.height, resized.width, shorter, kMaxDecodedPixels));
  }
  resized_.resize(rgb_bytes(resized));
  resize_rgb(other_size_, own, resized, resized_);
  const auto middle = [](std::int64_t rest) {  // rounds like Python
    return std::llrint(static_cast<double>(rest) / 2);
  };
  copy_region(resized_, resized,
              {.top = middle(resized.height - wanted.height),
               .left = middle(resized.width - wanted.width),
               .height = wanted.height,
               .width = wanted.width},
              rgb);
  free_if_large(other_size_);
  free_if_large(resized_);
}

ImageSize ImageDecoder::decode_whole(std::span<const std::byte> encoded,
                                     std::vector<std::uint8_t>& rgb) {
  ImageFormat& format = format_of(encoded);
  const ImageSize own = bounded_size(format, encoded);
  rgb.resize(rgb_bytes(own));
  format.decode(encoded, own, rgb);
  const Orientation turn = orientation_of(encoded);
  if (turn == Orientation::kUpright) return own;
  std::vector<std::uint8_t> upright(rgb.size());
  turn_upright(rgb, own, turn, upright);
  rgb.swap(upright);
  return turned(own, turn);
}

}  // namespace pfc
