#include "pfcctl/data/clean/thresholds.h"

#include <algorithm>
#include <cmath>

namespace pfc {

double quantile_of(std::vector<double> values, double part) {
  const auto place =
      static_cast<std::ptrdiff_t>(part * static_cast<double>(std::ssize(values) - 1));
  std::ranges::nth_element(values, values.begin() + place);
  return values[static_cast<std::size_t>(place)];
}

double same_person_threshold(const std::vector<double>& genuine,
                             const std::vector<double>& impostor) {
  const double one = quantile_of(genuine, 0.5), two = quantile_of(impostor, 0.5);
  const double spread_of_one = quantile_of(genuine, 0.84) - one;
  const double spread_of_two = quantile_of(impostor, 0.84) - two;
  const double spread = spread_of_one + spread_of_two;
  return spread > 0 ? (one * spread_of_two + two * spread_of_one) / spread : (one + two) / 2;
}

double duplicate_threshold(const std::vector<double>& genuine) {
  static constexpr double kLeastAngle = 1e-3;  // float32 does not resolve smaller ones
  std::vector<double> angles(genuine.size());
  std::ranges::transform(genuine, angles.begin(), [](double cosine) {
    return std::log(std::max(std::acos(std::clamp(cosine, -1.0, 1.0)), kLeastAngle));
  });
  const double median = quantile_of(angles, 0.5);
  const double angle = std::exp(median - 6 * (median - quantile_of(angles, 0.16)));
  return std::max(kLeastDuplicate, std::cos(angle));
}

double nearest_threshold(const std::vector<double>& nearest) {
  const double median = quantile_of(nearest, 0.5);
  return median + 4 * (median - quantile_of(nearest, 0.16));
}

}  // namespace pfc
