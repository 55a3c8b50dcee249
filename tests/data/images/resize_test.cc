// Compares resizing with the definition of the filter in float64.
#include "data/images/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace pfc {
namespace {

/// Returns the weight of each input pixel in output pixel `i` of a row or column.
std::vector<double> weights(std::int64_t from, std::int64_t to, std::int64_t i) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  const double centre = (static_cast<double>(i) + 0.5) * scale;
  std::vector<double> all(static_cast<std::size_t>(from), 0.0);
  double sum = 0;
  for (std::int64_t k = 0; k < from; ++k) {
    double& weight = all[static_cast<std::size_t>(k)];
    weight = std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach);
    sum += weight;
  }
  for (double& weight : all) weight /= sum;
  return all;
}

TEST(Resize, IsATriangleFilter) {
  std::mt19937 random(3);
  const ImageSize sizes[][2] = {{{20, 30}, {20, 30}}, {{20, 30}, {11, 13}}, {{50, 40}, {7, 39}},
                                {{9, 5}, {40, 33}},   {{1, 1}, {4, 4}},     {{64, 3}, {1, 9}}};
  for (const auto& [from, to] : sizes) {
    std::vector<std::uint8_t> in(static_cast<std::size_t>(from.height * from.width * 3));
    for (auto& value : in) value = static_cast<std::uint8_t>(random());
    std::vector<std::uint8_t> out(static_cast<std::size_t>(to.height * to.width * 3));
    resize_rgb(in, from, to, out);
    for (std::int64_t y = 0; y < to.height; ++y) {
      const auto rows = weights(from.height, to.height, y);
      for (std::int64_t x = 0; x < to.width; ++x) {
        const auto columns = weights(from.width, to.width, x);
        for (std::int64_t c = 0; c < 3; ++c) {
          double expected = 0;
          for (std::size_t r = 0; r < rows.size(); ++r) {
            for (std::size_t k = 0; k < columns.size(); ++k) {
              const std::size_t at = (r * columns.size() + k) * 3 + static_cast<std::size_t>(c);
              expected += rows[r] * columns[k] * in[at];
            }
          }
          ASSERT_NEAR(out[static_cast<std::size_t>((y * to.width + x) * 3 + c)], expected, 0.51)
              << from.height << " x " << from.width << " to " << to.height << " x " << to.width
              << " at " << y << ", " << x;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pfc
