#include "worker/data/images/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "common/error.h"

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
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, std::llround(std::floor(centre - reach + 0.5)));
    const auto end = std::min<std::int64_t>(from, std::llround(std::floor(centre + reach + 0.5)));
    const Taps::Run run{first, taps.weights.size(), static_cast<std::size_t>(end - first)};
    double sum = 0;
    for (std::int64_t k = first; k < end; ++k) {
      sum += std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach);
    }
    for (std::int64_t k = first; k < end; ++k) {
      const double weight =
          std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight / sum));
    }
    taps.runs.push_back(run);
  }
  return taps;
}

constexpr std::size_t kLanes = 4;  // three colours and a zero: whole vectors

/// One output row from whole input rows: sum [width, 4].
void blend_rows(const std::uint8_t* rgb, std::size_t width, const Taps& taps, const Taps::Run& run,
                std::vector<float>& row, std::vector<float>& sum) {
  const std::size_t values = width * 3;
  std::fill(row.begin(), row.end(), 0.f);
  for (std::size_t t = 0; t < run.count; ++t) {
    const float weight = taps.weights[run.begin + t];
    const std::uint8_t* in = rgb + (static_cast<std::size_t>(run.first) + t) * values;
    float* const out = row.data();
    for (std::size_t i = 0; i < values; ++i) out[i] += weight * static_cast<float>(in[i]);
  }
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t c = 0; c < 3; ++c) sum[x * kLanes + c] = row[3 * x + c];
  }
}

void blend_columns(const std::vector<float>& row, const Taps& taps, std::uint8_t* rgb) {
  for (const Taps::Run& run : taps.runs) {
    std::array<float, kLanes> pixel{};
    const float* in = row.data() + static_cast<std::size_t>(run.first) * kLanes;
    for (std::size_t t = 0; t < run.count; ++t, in += kLanes) {
      const float weight = taps.weights[run.begin + t];
      for (std::size_t c = 0; c < kLanes; ++c) pixel[c] += weight * in[c];
    }
    for (std::size_t c = 0; c < 3; ++c) *rgb++ = static_cast<std::uint8_t>(pixel[c] + 0.5f);
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
  std::vector<float> row(width * 3);
  std::vector<float> pixels(width * kLanes);
  std::uint8_t* to_row = out.data();
  for (const Taps::Run& run : rows.runs) {
    blend_rows(rgb.data(), width, rows, run, row, pixels);
    blend_columns(pixels, columns, to_row);
    to_row += static_cast<std::size_t>(to.width) * 3;
  }
}

}  // namespace pfc
