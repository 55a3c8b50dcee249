#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "common/error.h"
#include "data/images/vector_clones.h"

namespace pfc {

namespace {

/// Input pixels and weights for each output pixel of a row or column.
struct Taps {
  std::size_t count = 0;           ///< input pixels per output pixel
  std::vector<std::size_t> first;  ///< [to], first input pixel; beyond the border weights are 0
  std::vector<float> weights;      ///< [to, count]; each row sums to 1
};

/// Returns the taps of a triangle filter. Pixel centres are at k + 1/2. Pixels beyond a border do
/// not count, and the other weights grow, as in Pillow.
Taps triangle(std::int64_t from, std::int64_t to) {
  struct Run {
    std::int64_t first, end;
  };
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  const auto centre = [&](std::int64_t i) { return (static_cast<double>(i) + 0.5) * scale; };
  const auto run = [&](std::int64_t i) -> Run {
    const auto whole = [](double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); };
    return {std::max<std::int64_t>(0, whole(centre(i) - reach)),
            std::min<std::int64_t>(from, whole(centre(i) + reach))};
  };
  Taps taps;
  for (std::int64_t i = 0; i < to; ++i) {
    taps.count = std::max(taps.count, static_cast<std::size_t>(run(i).end - run(i).first));
  }
  taps.first.reserve(static_cast<std::size_t>(to));
  taps.weights.reserve(static_cast<std::size_t>(to) * taps.count);
  std::vector<double> weights(taps.count);
  for (std::int64_t i = 0; i < to; ++i) {
    const auto [first, end] = run(i);
    double sum = 0;
    for (std::size_t t = 0; t < taps.count; ++t) {
      const double pixel = static_cast<double>(first) + static_cast<double>(t);
      const double distance = std::abs(pixel + 0.5 - centre(i));
      const bool counts = pixel < static_cast<double>(end);
      weights[t] = counts ? std::max(0.0, 1 - distance / reach) : 0;
      sum += weights[t];
    }
    taps.first.push_back(static_cast<std::size_t>(first));
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return taps;
}

/// A pixel's three colours and one unused value: a whole vector.
using Pixel = float __attribute__((vector_size(4 * sizeof(float))));

constexpr std::size_t kFewTaps = 5;  // for enlarging, or shrinking by less than half

/// Calls f(taps), with a compile-time constant if there are few taps: a loop of unknown length
/// costs more than its body.
template <typename F>
[[gnu::always_inline]] inline void with_known_count(std::size_t taps, const F& f) {
  switch (taps) {
    case 2:
      return f(std::integral_constant<std::size_t, 2>());
    case 3:
      return f(std::integral_constant<std::size_t, 3>());
    case 4:
      return f(std::integral_constant<std::size_t, 4>());
    case kFewTaps:
      return f(std::integral_constant<std::size_t, kFewTaps>());
    default:
      return f(taps);
  }
}

/// Computes one output row from input rows. `values`: length of each row and of `out`, width * 3.
PFC_VECTOR_CLONES void blend_rows(const std::uint8_t* const* rows, const float* weights,
                                  std::size_t taps, std::size_t values, float* out) {
  if (taps > kFewTaps) {
    std::fill(out, out + values, 0.f);
    for (std::size_t t = 0; t < taps; ++t) {
      const std::uint8_t* const row = rows[t];
      for (std::size_t i = 0; i < values; ++i) out[i] += weights[t] * static_cast<float>(row[i]);
    }
    return;
  }
  with_known_count(
      taps, [&](auto count) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < values; ++i) {
          float sum = 0;
          for (std::size_t t = 0; t < count; ++t)
            sum += weights[t] * static_cast<float>(rows[t][i]);
          out[i] = sum;
        }
      });
}

/// Computes one output row from the pixels of `row`, which has columns.count extra pixels and one
/// extra value. `rgb` also has one extra value, which is overwritten.
PFC_VECTOR_CLONES void blend_columns(const float* row, const Taps& columns, std::uint8_t* rgb) {
  using Integers = std::int32_t __attribute__((vector_size(sizeof(Pixel))));
  using Bytes = std::uint8_t __attribute__((vector_size(sizeof(Pixel))));
  with_known_count(
      columns.count, [&](auto count) __attribute__((always_inline)) {
        const float* weights = columns.weights.data();
        for (const std::size_t first : columns.first) {
          Pixel sum{};
          const float* in = row + first * 3;
          for (std::size_t t = 0; t < count; ++t) {
            Pixel pixel;
            std::memcpy(&pixel, in + t * 3, sizeof(pixel));
            sum += weights[t] * pixel;
          }
          weights += count;
          const auto whole = reinterpret_cast<Bytes>(__builtin_convertvector(sum + 0.5f, Integers));
          // One instruction; a conversion to bytes would extract each number separately.
          const auto rounded = __builtin_shufflevector(whole, whole, 0, 4, 8, 12);
          std::memcpy(rgb, &rounded, sizeof(rounded));
          rgb += 3;
        }
      });
}

}  // namespace

void resize_rgb(std::span<const std::uint8_t> rgb, ImageSize from, ImageSize to,
                std::span<std::uint8_t> out) {
  const auto bytes = [](ImageSize size) {
    return static_cast<std::size_t>(size.height * size.width * 3);
  };
  check(rgb.size() == bytes(from) && out.size() == bytes(to), "resize_rgb: not [height, width, 3]");
  const Taps rows = triangle(from.height, to.height);
  const Taps columns = triangle(from.width, to.width);
  const std::size_t row_in = static_cast<std::size_t>(from.width) * 3;
  const std::size_t row_out = static_cast<std::size_t>(to.width) * 3;
  std::vector<float> row(row_in + columns.count * 3 + 1);
  std::vector<std::uint8_t> last(row_out + 1);
  std::vector<const std::uint8_t*> in(rows.count);
  const auto bottom = static_cast<std::size_t>(from.height) - 1;
  for (std::size_t y = 0; y < rows.first.size(); ++y) {
    for (std::size_t t = 0; t < rows.count; ++t) {
      in[t] = rgb.data() + std::min(rows.first[y] + t, bottom) * row_in;
    }
    blend_rows(in.data(), rows.weights.data() + y * rows.count, rows.count, row_in, row.data());
    std::uint8_t* const to_row = out.data() + y * row_out;
    const bool is_last = y + 1 == rows.first.size();
    blend_columns(row.data(), columns, is_last ? last.data() : to_row);
    if (is_last) std::memcpy(to_row, last.data(), row_out);
  }
}

void copy_region(std::span<const std::uint8_t> rgb, ImageSize size, const ImageRegion& region,
                 std::span<std::uint8_t> out) {
  const auto row = static_cast<std::size_t>(region.width * 3);
  for (std::int64_t y = 0; y < region.height; ++y) {
    const std::uint8_t* const from = rgb.data() + ((region.top + y) * size.width + region.left) * 3;
    std::memmove(out.data() + static_cast<std::size_t>(y) * row, from, row);
  }
}

}  // namespace pfc
