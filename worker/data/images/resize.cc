#include "worker/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/error.h"
#include "worker/data/images/vector_clones.h"

namespace pfc {

namespace {

/// For each output pixel of a row or column: the input pixels that it is made of.
struct Taps {
  struct Run {
    std::int64_t first = 0;  ///< input pixel
    std::size_t begin = 0;   ///< of its weights
    std::size_t count = 0;
  };
  std::vector<Run> runs;       ///< [to]
  std::vector<float> weights;  ///< of all runs, one behind the other; those of a run sum to 1
};

/// Pixel centres are at k + 1/2. Pixels beyond a border do not count: the others' weights grow, as
/// in Pillow.
Taps triangle(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.runs.reserve(static_cast<std::size_t>(to));
  taps.weights.reserve(static_cast<std::size_t>(to) * static_cast<std::size_t>(2 * reach + 2));
  std::vector<double> weights(static_cast<std::size_t>(2 * reach + 2));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto end =
        std::min<std::int64_t>(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    const Taps::Run run{first, taps.weights.size(), static_cast<std::size_t>(end - first)};
    double sum = 0;
    for (std::size_t t = 0; t < run.count; ++t) {
      const double distance =
          std::abs(static_cast<double>(first) + static_cast<double>(t) + 0.5 - centre);
      weights[t] = std::max(0.0, 1 - distance / reach);
      sum += weights[t];
    }
    for (std::size_t t = 0; t < run.count; ++t) {
      taps.weights.push_back(static_cast<float>(weights[t] / sum));
    }
    taps.runs.push_back(run);
  }
  return taps;
}

/// A pixel's three colours, and one value that does not count: a whole vector.
using Pixel = float __attribute__((vector_size(4 * sizeof(float))));

/// One output row from whole input rows: row [width * 3].
PFC_VECTOR_CLONES void blend_rows(const std::uint8_t* rgb, std::size_t width, const Taps& taps,
                                  const Taps::Run& run, std::vector<float>& row) {
  const std::size_t values = width * 3;
  float* const out = row.data();
  std::fill(out, out + values, 0.f);
  for (std::size_t t = 0; t < run.count; ++t) {
    const float weight = taps.weights[run.begin + t];
    const std::uint8_t* in = rgb + (static_cast<std::size_t>(run.first) + t) * values;
    for (std::size_t i = 0; i < values; ++i) out[i] += weight * static_cast<float>(in[i]);
  }
}

/// `row` has one value more than its pixels. So has `rgb`, whose next value is overwritten.
PFC_VECTOR_CLONES void blend_columns(const std::vector<float>& row, const Taps& taps,
                                     std::uint8_t* rgb) {
  using Integers = std::int32_t __attribute__((vector_size(sizeof(Pixel))));
  using Bytes = std::uint8_t __attribute__((vector_size(sizeof(Pixel) / 4)));
  const float* const weights = taps.weights.data();
  for (const Taps::Run& run : taps.runs) {
    Pixel sum{};
    const float* in = row.data() + static_cast<std::size_t>(run.first) * 3;
    for (std::size_t t = 0; t < run.count; ++t, in += 3) {
      Pixel pixel;
      std::memcpy(&pixel, in, sizeof(pixel));
      sum += weights[run.begin + t] * pixel;
    }
    const auto rounded =
        __builtin_convertvector(__builtin_convertvector(sum + 0.5f, Integers), Bytes);
    std::memcpy(rgb, &rounded, sizeof(rounded));
    rgb += 3;
  }
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
  const auto width = static_cast<std::size_t>(from.width);
  std::vector<float> row(width * 3 + 1);
  const std::size_t row_bytes = static_cast<std::size_t>(to.width) * 3;
  std::vector<std::uint8_t> last(row_bytes + 1);
  std::uint8_t* to_row = out.data();
  for (const Taps::Run& run : rows.runs) {
    blend_rows(rgb.data(), width, rows, run, row);
    const bool is_last = &run == &rows.runs.back();
    blend_columns(row, columns, is_last ? last.data() : to_row);
    if (is_last) std::memcpy(to_row, last.data(), row_bytes);
    to_row += row_bytes;
  }
}

}  // namespace pfc
