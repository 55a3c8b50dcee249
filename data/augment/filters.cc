#include "data/augment/filters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "data/images/resize.h"
#include "data/images/vector_clones.h"

namespace pfc {

namespace {

constexpr int kColourBits = 12;  // fraction bits of a ColourMatrix
constexpr int kBlurBits = 8;     // fraction bits of blur weights

std::span<std::uint8_t> room(std::vector<std::uint8_t>& bytes, std::int64_t count) {
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

/// Returns the weights at 0 .. radius from the centre. They sum to 2^kBlurBits over the window.
std::array<std::uint32_t, 3> gaussian(int radius) {
  const double deviation = 0.3 * (radius - 1) + 0.8;
  std::array<double, 3> weights{};
  double sum = 0;
  for (int i = 0; i <= radius; ++i) {
    weights[i] = std::exp(-i * i / (2 * deviation * deviation));
    sum += weights[i] * (i == 0 ? 1 : 2);
  }
  std::array<std::uint32_t, 3> rounded{};
  std::uint32_t around = 0;
  for (int i = 1; i <= radius; ++i) {
    rounded[i] = static_cast<std::uint32_t>(std::lround(weights[i] / sum * (1 << kBlurBits)));
    around += 2 * rounded[i];
  }
  rounded[0] = (1u << kBlurBits) - around;
  return rounded;
}

/// Returns the row index for `y`, mirrored at the image border.
std::int64_t mirrored(std::int64_t y, std::int64_t size) {
  if (y < 0) return -y;
  return y < size ? y : 2 * size - 2 - y;
}

/// Computes out[i], the weighted sum over the window of rows[..][i], in units of 1/2^kBlurBits.
/// `rows` are the rows -radius .. radius.
PFC_VECTOR_CLONES void blur_columns(std::span<const std::uint8_t* const> rows,
                                    const std::array<std::uint32_t, 3>& weights,
                                    std::span<std::uint16_t> out) {
  const std::size_t radius = rows.size() / 2;
  const std::uint8_t* const middle = rows[radius];
  const auto w0 = static_cast<std::uint16_t>(weights[0]);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(w0 * middle[i]);
  for (std::size_t r = 1; r <= radius; ++r) {
    const std::uint8_t* const above = rows[radius - r];
    const std::uint8_t* const below = rows[radius + r];
    const auto w = static_cast<std::uint16_t>(weights[r]);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::uint16_t>(out[i] + w * (above[i] + below[i]));
    }
  }
}

/// Computes the same sum along a row. `padded` has `radius` extra pixels on both sides.
PFC_VECTOR_CLONES void blur_row(std::span<const std::uint16_t> padded, int radius,
                                const std::array<std::uint32_t, 3>& weights,
                                std::span<std::uint8_t> out) {
  constexpr std::uint32_t kHalf = 1u << (2 * kBlurBits - 1);
  const std::uint16_t* const middle = padded.data() + 3 * radius;
  if (radius == 1) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint32_t near = std::uint32_t{*(middle + i - 3)} + middle[i + 3];
      out[i] = static_cast<std::uint8_t>((weights[0] * middle[i] + weights[1] * near + kHalf) >>
                                         (2 * kBlurBits));
    }
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t near = std::uint32_t{*(middle + i - 3)} + middle[i + 3];
    const std::uint32_t far = std::uint32_t{*(middle + i - 6)} + middle[i + 6];
    out[i] = static_cast<std::uint8_t>(
        (weights[0] * middle[i] + weights[1] * near + weights[2] * far + kHalf) >> (2 * kBlurBits));
  }
}

PFC_VECTOR_CLONES void multiply_colours(std::uint8_t* rgb, std::size_t pixels,
                                        const ColourMatrix& m) {
  constexpr std::int32_t kHalf = 1 << (kColourBits - 1);
  constexpr std::size_t kBlock = 64;  // in pixels; the separated colours fit the cache
  std::array<std::array<std::int32_t, kBlock>, 3> in{};
  std::array<std::uint8_t, kBlock> out{};
  for (std::size_t begin = 0; begin < pixels; begin += kBlock) {
    const std::size_t count = std::min(kBlock, pixels - begin);
    std::uint8_t* const block = rgb + 3 * begin;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) in[c][i] = block[3 * i + c];
    }
    for (std::size_t c = 0; c < 3; ++c) {
      const std::int32_t r = m[3 * c], g = m[3 * c + 1], b = m[3 * c + 2];
      for (std::size_t i = 0; i < kBlock; ++i) {
        const std::int32_t sum = r * in[0][i] + g * in[1][i] + b * in[2][i] + kHalf;
        out[i] = static_cast<std::uint8_t>(std::clamp(sum >> kColourBits, 0, 255));
      }
      for (std::size_t i = 0; i < count; ++i) block[3 * i + c] = out[i];
    }
  }
}

}  // namespace

void zoom(ImagePixels image, const ImageRegion& region, FilterScratch& scratch) {
  const std::span<std::uint8_t> part = room(scratch.bytes, region.height * region.width * 3);
  copy_region(image.rgb, image.size, region, part);
  resize_rgb(part, region.size(), image.size, image.rgb);
}

void lower_resolution(ImagePixels image, ImageSize smaller, FilterScratch& scratch) {
  const std::span<std::uint8_t> small = room(scratch.bytes, smaller.height * smaller.width * 3);
  resize_rgb(image.rgb, image.size, smaller, small);
  resize_rgb(small, smaller, image.size, image.rgb);
}

void blur(ImagePixels image, int radius, FilterScratch& scratch) {
  const auto [height, width] = image.size;
  const std::array<std::uint32_t, 3> weights = gaussian(radius);
  const auto row_bytes = static_cast<std::size_t>(width * 3);
  const auto margin = static_cast<std::size_t>(radius) * 3;
  // Rows are replaced from the top, but a row also needs the original rows above it.
  const std::span<std::uint8_t> original = room(scratch.bytes, height * width * 3);
  std::ranges::copy(image.rgb, original.begin());
  scratch.sums.resize(row_bytes + 2 * margin);
  const std::span<std::uint16_t> padded = scratch.sums;
  for (std::int64_t y = 0; y < height; ++y) {
    std::array<const std::uint8_t*, 5> rows{};
    for (int r = -radius; r <= radius; ++r) {
      rows[static_cast<std::size_t>(r + radius)] =
          original.data() + mirrored(y + r, height) * static_cast<std::int64_t>(row_bytes);
    }
    blur_columns(std::span(rows).first(static_cast<std::size_t>(2 * radius + 1)), weights,
                 padded.subspan(margin, row_bytes));
    for (std::int64_t x = 1; x <= radius; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const auto at = [&](std::int64_t column) -> std::uint16_t& {
          return padded[static_cast<std::size_t>((column + radius) * 3) + c];
        };
        at(-x) = at(mirrored(-x, width));
        at(width - 1 + x) = at(mirrored(width - 1 + x, width));
      }
    }
    blur_row(padded, radius, weights,
             image.rgb.subspan(static_cast<std::size_t>(y) * row_bytes, row_bytes));
  }
}

ColourMatrix hue_and_saturation(double hue, double saturation) {
  using Matrix = std::array<std::array<double, 3>, 3>;
  // The colours of NTSC, as standardised in 1953.
  constexpr Matrix kToYiq{{{0.299, 0.587, 0.114}, {0.596, -0.274, -0.321}, {0.211, -0.523, 0.311}}};
  constexpr Matrix kToRgb{{{0.9996643205, 0.9565411897, 0.6208617021},  // inverse of kToYiq
                           {0.9996248232, -0.2722745032, -0.6474512713},
                           {1.0028122538, -1.1068480906, 1.7054056784}}};
  const auto product = [](const Matrix& a, const Matrix& b) {
    Matrix c{};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        for (std::size_t k = 0; k < 3; ++k) c[i][j] += a[i][k] * b[k][j];
      }
    }
    return c;
  };
  const double angle = hue * std::numbers::pi / 180;
  const double cosine = saturation * std::cos(angle), sine = saturation * std::sin(angle);
  const Matrix turn{{{1, 0, 0}, {0, cosine, sine}, {0, -sine, cosine}}};
  const Matrix all = product(kToRgb, product(turn, kToYiq));
  ColourMatrix rounded{};
  for (std::size_t i = 0; i < 9; ++i) {
    rounded[i] = static_cast<std::int32_t>(std::lround(all[i / 3][i % 3] * (1 << kColourBits)));
  }
  return rounded;
}

void transform_colours(ImagePixels image, const ColourMatrix& m) {
  multiply_colours(image.rgb.data(), image.rgb.size() / 3, m);
}

void turn_grey(ImagePixels image) {
  std::uint8_t* const rgb = image.rgb.data();
  for (std::size_t i = 0; i + 2 < image.rgb.size(); i += 3) {
    // 0.299, 0.587, 0.114 in units of 1/65536
    const std::uint32_t luma = 19595u * rgb[i] + 38470u * rgb[i + 1] + 7471u * rgb[i + 2] + 32768u;
    rgb[i] = rgb[i + 1] = rgb[i + 2] = static_cast<std::uint8_t>(luma >> 16);
  }
}

void cut_out(ImagePixels image, const ImageRegion& region) {
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    std::memset(image.rgb.data() + (y * image.size.width + region.left) * 3, 128,
                static_cast<std::size_t>(region.width * 3));
  }
}

}  // namespace pfc
