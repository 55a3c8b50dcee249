// Builds JPEG, PNG and WebP files for tests: smooth images that depend only on a seed.
#pragma once

#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/error.h"

namespace pfc::testing {

/// Returns an RGB image [height, width, 3] of waves; the seed sets direction and colour.
inline std::vector<std::uint8_t> draw_waves(int height, int width, unsigned seed) {
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(height * width * 3));
  std::size_t i = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (unsigned c = 0; c < 3; ++c) {
        const double phase = 0.7 * seed + 2.1 * c + x * (0.02 + 0.01 * (seed % 7)) + 0.05 * y;
        rgb[i++] = static_cast<std::uint8_t>(127.5 + 120 * std::sin(phase));
      }
    }
  }
  return rgb;
}

inline std::vector<std::byte> to_bytes(const unsigned char* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  return {begin, begin + size};
}

/// `format` is one of libjpeg-turbo's TJPF_*; `flags` are its TJFLAG_*.
inline std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, int height,
                                          int width, int quality = 95, int format = TJPF_RGB,
                                          int flags = 0) {
  const tjhandle handle = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT: turbojpeg's type
  const int rc = tjCompress2(handle, pixels.data(), width, 0, height, format, &data, &size,
                             TJSAMP_444, quality, flags | TJFLAG_ACCURATEDCT);
  check(rc == 0, "tjCompress2");
  std::vector<std::byte> bytes = to_bytes(data, size);
  tjFree(data);
  tjDestroy(handle);
  return bytes;
}

inline std::vector<std::byte> make_jpeg(int height, int width, unsigned seed) {
  return encode_jpeg(draw_waves(height, width, seed), height, width);
}

/// `format` is one of libpng's PNG_FORMAT_*, which describes the layout of the pixels.
inline std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, int height,
                                         int width, unsigned format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  check(png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr) != 0, "png");
  std::vector<std::byte> bytes(size);
  check(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0,
        "png_image_write_to_memory");
  bytes.resize(size);
  return bytes;
}

struct PngKind {
  int colour_type = PNG_COLOR_TYPE_RGB;
  int bits = 8;      ///< per channel
  double gamma = 0;  ///< value of a gAMA chunk; 0: no chunk
  int interlace = PNG_INTERLACE_NONE;
  std::vector<png_color> palette = {};       ///< for PNG_COLOR_TYPE_PALETTE
  std::vector<png_byte> palette_alpha = {};  ///< of the palette's first colours
};
/// `rows` are as in the file: 16-bit values are big-endian.
inline std::vector<std::byte> encode_png_as(const PngKind& kind, std::span<const std::uint8_t> rows,
                                            int height, int width) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  check(png != nullptr, "png_create_write_struct");
  png_infop info = png_create_info_struct(png);
  std::vector<std::byte> file;
  const auto write = [](png_structp of, png_bytep data, std::size_t bytes) {
    const std::vector<std::byte> piece = to_bytes(data, bytes);
    auto& all = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(of));
    all.insert(all.end(), piece.begin(), piece.end());
  };
  png_set_write_fn(png, &file, write, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kind.bits, kind.colour_type, kind.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (kind.gamma > 0) png_set_gAMA(png, info, kind.gamma);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  }
  if (!kind.palette_alpha.empty()) {
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()),
                 nullptr);
  }
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  const std::size_t row_bytes = rows.size() / static_cast<std::size_t>(height);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
      png_write_row(png, rows.data() + y * row_bytes);
    }
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

/// Encodes losslessly: rgb [height, width, 3], or with `alpha` rgba [height, width, 4].
inline std::vector<std::byte> encode_webp(std::span<const std::uint8_t> pixels, int height,
                                          int width, bool alpha = false) {
  std::uint8_t* data = nullptr;
  const std::size_t size =
      alpha ? WebPEncodeLosslessRGBA(pixels.data(), width, height, width * 4, &data)
            : WebPEncodeLosslessRGB(pixels.data(), width, height, width * 3, &data);
  check(size > 0, "WebPEncodeLossless");
  std::vector<std::byte> bytes = to_bytes(data, size);
  WebPFree(data);
  return bytes;
}

}  // namespace pfc::testing
