#include "pfcctl/data/clean/thumbnails.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "data/damaged_image.h"
#include "data/images/decode.h"

namespace pfc {

namespace {

constexpr std::int64_t kThumbnailSide = 16;
constexpr auto kThumbnailPixels = static_cast<std::size_t>(kThumbnailSide * kThumbnailSide);

/// Returns the brightness of each pixel (ITU-R BT.601).
std::vector<std::uint8_t> brightness_of(std::span<const std::uint8_t> rgb) {
  std::vector<std::uint8_t> brightness(rgb.size() / 3);
  for (std::size_t i = 0; i < brightness.size(); ++i) {
    brightness[i] = static_cast<std::uint8_t>(
        (299 * rgb[3 * i] + 587 * rgb[3 * i + 1] + 114 * rgb[3 * i + 2] + 500) / 1000);
  }
  return brightness;
}

/// Returns Pearson's correlation; 0 if all numbers of a or of b are equal.
double correlation_of(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  std::int64_t sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t x = a[i], y = b[i];
    sum_a += x;
    sum_b += y;
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  const std::int64_t n = std::ssize(a);
  const auto squares =
      static_cast<double>(n * aa - sum_a * sum_a) * static_cast<double>(n * bb - sum_b * sum_b);
  return squares > 0 ? static_cast<double>(n * ab - sum_a * sum_b) / std::sqrt(squares) : 0;
}

/// Decodes the image at its own size. A JPEG decoded at a part of its size, as for training, would
/// be distorted by up to a pixel, which depends on that size.
void decode_thumbnail(std::span<const std::byte> encoded, std::span<std::uint8_t> rgb) {
  thread_local ImageDecoder decoder;
  const auto whole = [](ImageSize own) {
    return ImageRegion{.height = own.height, .width = own.width};
  };
  decoder.decode_region(encoded, whole, {kThumbnailSide, kThumbnailSide}, rgb);
}

}  // namespace

const Thumbnails::Thumbnail& Thumbnails::thumbnail(std::int64_t image) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = thumbnails_.find(image);
    if (known != thumbnails_.end()) return known->second;
  }
  Thumbnail thumbnail;
  if (image < images_.info().images) {
    std::array<std::uint8_t, 3 * kThumbnailPixels> rgb{};
    try {
      ImageBuffer buffer;
      decode_thumbnail(images_.read(image, buffer).encoded, rgb);
      thumbnail = brightness_of(rgb);
    } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): it has no thumbnail
    }
  }
  const std::lock_guard lock(mutex_);
  return thumbnails_.emplace(image, std::move(thumbnail)).first->second;
}

double Thumbnails::correlation(std::int64_t a, std::int64_t b) {
  const Thumbnail &one = thumbnail(a), &other = thumbnail(b);
  if (one.empty() || other.empty()) return 0;
  Thumbnail mirrored = other;
  for (auto row = mirrored.begin(); row != mirrored.end(); row += kThumbnailSide) {
    std::reverse(row, row + kThumbnailSide);
  }
  return std::max(correlation_of(one, other), correlation_of(one, mirrored));
}

}  // namespace pfc
