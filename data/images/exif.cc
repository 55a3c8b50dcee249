#include "data/images/exif.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "common/error.h"

namespace pfc {
namespace {

using Bytes = std::span<const std::byte>;

/// Returns an integer of `size` bytes; nullopt if not all of them are in `bytes`.
std::optional<std::uint32_t> number_at(Bytes bytes, std::size_t at, std::size_t size,
                                       bool big_endian) {
  if (at > bytes.size() || size > bytes.size() - at) return {};
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t place = big_endian ? at + i : at + size - 1 - i;
    number = (number << 8) | std::to_integer<std::uint32_t>(bytes[place]);
  }
  return number;
}

constexpr std::string_view kExif("Exif\0\0", 6);

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

/// Returns the content of a JPEG's first APP1 segment with Exif data; empty if there is none.
Bytes exif_segment(Bytes jpeg) {
  constexpr std::uint32_t kApp1 = 0xe1, kStartOfScan = 0xda;
  std::size_t at = 2;
  while (const auto marker = number_at(jpeg, at, 2, true)) {
    if (*marker == 0xffff) {  // padding before a marker
      ++at;
      continue;
    }
    const auto length = number_at(jpeg, at + 2, 2, true);
    if (*marker >> 8 != 0xff || (*marker & 0xff) == kStartOfScan || !length || *length < 2)
      return {};
    const std::size_t begin = at + 4, bytes = *length - 2;
    if (bytes > jpeg.size() - begin) return {};
    const Bytes content = jpeg.subspan(begin, bytes);
    if ((*marker & 0xff) == kApp1 && starts_with(content, kExif)) return content;
    at = begin + bytes;
  }
  return {};
}

/// Returns the content of a PNG's first chunk `eXIf` or a WebP's first chunk `EXIF`; empty if there
/// is none. A PNG's chunk is its length, type, content and a checksum; a WebP's is its type, length
/// and content, padded to an even length.
Bytes exif_chunk(Bytes file, bool png) {
  std::size_t at = png ? 8 : 12;
  while (const auto length = number_at(file, png ? at : at + 4, 4, png)) {
    const std::size_t begin = at + 8;
    if (begin > file.size() || *length > file.size() - begin) return {};
    if (starts_with(file.subspan(png ? at + 4 : at), png ? "eXIf" : "EXIF")) {
      return file.subspan(begin, *length);
    }
    at = begin + *length + (png ? 4 : *length % 2);
  }
  return {};
}

/// Returns the TIFF structure of the image's Exif data; empty if there is none.
Bytes tiff_of(Bytes image) {
  const bool png = starts_with(image, "\x89PNG"), webp = starts_with(image, "RIFF");
  const Bytes exif = png || webp ? exif_chunk(image, png) : exif_segment(image);
  return starts_with(exif, kExif) ? exif.subspan(kExif.size()) : exif;
}

}  // namespace

Orientation orientation_of(Bytes image) {
  constexpr std::uint32_t kBigEndian = 0x4d4d, kTag = 0x0112, kEntryBytes = 12;
  const Bytes tiff = tiff_of(image);
  const bool big = number_at(tiff, 0, 2, true) == kBigEndian;
  const auto directory = number_at(tiff, 4, 4, big);
  const auto entries = directory ? number_at(tiff, *directory, 2, big) : std::nullopt;
  for (std::uint32_t i = 0; entries && i < *entries; ++i) {
    const std::size_t entry = std::size_t{*directory} + 2 + std::size_t{i} * kEntryBytes;
    const auto tag = number_at(tiff, entry, 2, big);
    if (!tag) break;
    if (*tag != kTag) continue;
    const auto value = number_at(tiff, entry + 8, 2, big);
    if (value && *value >= 1 && *value <= 8) return static_cast<Orientation>(*value);
    break;
  }
  return Orientation::kUpright;
}

void turn_upright(std::span<const std::uint8_t> rgb, ImageSize stored, Orientation orientation,
                  std::span<std::uint8_t> upright) {
  check(rgb.size() == upright.size(), "turn_upright: sizes differ");
  const auto [height, width] = stored;
  // Offset of the upright image's pixel (0, 0), and the steps between its rows and columns, in
  // pixels of the stored image.
  std::int64_t first = 0, down = width, right = 1;
  const std::int64_t last_row = (height - 1) * width, last_column = width - 1;
  switch (orientation) {
    case Orientation::kUpright:
      break;
    case Orientation::kMirrored:
      first = last_column, right = -1;
      break;
    case Orientation::kUpsideDown:
      first = last_row + last_column, down = -width, right = -1;
      break;
    case Orientation::kMirroredUpsideDown:
      first = last_row, down = -width;
      break;
    case Orientation::kTransposed:
      down = 1, right = width;
      break;
    case Orientation::kTurnRight:
      first = last_row, down = 1, right = -width;
      break;
    case Orientation::kTransversed:
      first = last_row + last_column, down = -1, right = -width;
      break;
    case Orientation::kTurnLeft:
      first = last_column, down = -1, right = width;
      break;
  }
  const bool swapped = swaps_sides(orientation);
  const std::int64_t rows = swapped ? width : height, columns = swapped ? height : width;
  std::uint8_t* out = upright.data();
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x, out += 3) {
      std::memcpy(out, rgb.data() + 3 * (first + y * down + x * right), 3);
    }
  }
}

}  // namespace pfc
