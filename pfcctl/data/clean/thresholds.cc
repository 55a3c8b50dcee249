#include "pfcctl/data/clean/thresholds.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/error.h"
#include "pfcctl/data/clean/identity_centres.h"

namespace pfc {

namespace {

/// Cosines of images of one identity, and medoids of several.
struct Samples {
  std::vector<double> genuine;
  std::vector<std::vector<float>> medoids;
};

/// Samples at most 20,000 of the identities with three images, at equal distances.
Samples samples_of(const LabelledEmbeddings& set, int threads) {
  std::vector<std::int64_t> usable;
  for (std::int64_t i = 0; i < set.labels().identities(); ++i) {
    if (!set.labels().test(i) && set.members().of(i).size() >= 3) usable.push_back(i);
  }
  const std::int64_t all = std::ssize(usable), distance = (all + 19'999) / 20'000;
  Samples samples;
  if (all == 0) return samples;
  for_identities<Samples>(
      "sampling", (all + distance - 1) / distance, threads,
      [&](std::int64_t i, Samples& to) {
        const auto images = set.members().of(usable[static_cast<std::size_t>(i * distance)]);
        const std::vector<float> rows = set.rows(images);
        const std::size_t d = set.dimension(), medoid = medoid_of(rows, d);
        const auto row = [&](std::size_t k) { return std::span(rows).subspan(k * d, d); };
        for (std::size_t k = 0; k < images.size(); ++k) {
          if (k != medoid) to.genuine.push_back(inner_product(row(k), row(medoid)));
        }
        to.medoids.emplace_back(row(medoid).begin(), row(medoid).end());
      },
      [&](Samples some) {
        std::ranges::move(some.genuine, std::back_inserter(samples.genuine));
        std::ranges::move(some.medoids, std::back_inserter(samples.medoids));
      });
  return samples;
}

/// Returns the element at this part of the sorted values.
double quantile_of(std::vector<double> values, double part) {
  const auto place =
      static_cast<std::ptrdiff_t>(part * static_cast<double>(std::ssize(values) - 1));
  std::ranges::nth_element(values, values.begin() + place);
  return values[static_cast<std::size_t>(place)];
}

double same_threshold(const std::vector<double>& genuine, const std::vector<double>& impostor) {
  const double one = quantile_of(genuine, 0.5), two = quantile_of(impostor, 0.5);
  const double spread_of_one = quantile_of(genuine, 0.84) - one;
  const double spread_of_two = quantile_of(impostor, 0.84) - two;
  const double spread = spread_of_one + spread_of_two;
  return spread > 0 ? (one * spread_of_two + two * spread_of_one) / spread : (one + two) / 2;
}

double log_angle(double cosine) {
  constexpr double kLeastAngle = 1e-3;  // float32 does not resolve smaller ones
  return std::log(std::max(angle_of(cosine), kLeastAngle));
}

double duplicate_threshold(const std::vector<double>& genuine) {
  std::vector<double> angles;
  for (const double cosine : genuine) angles.push_back(log_angle(cosine));
  const double median = quantile_of(angles, 0.5);
  return std::max(kLeastDuplicate,
                  std::cos(std::exp(median - 6 * (median - quantile_of(angles, 0.16)))));
}

}  // namespace

CleaningThresholds image_thresholds(const LabelledEmbeddings& set, int threads) {
  const Samples of = samples_of(set, threads);
  const std::size_t people = of.medoids.size();
  if (people < kFewestSamples) {
    throw InputError(
        fmt::format("found {} identities with at least 3 usable images, expected {}: the "
                    "thresholds are set from them; add identities or images to the set",
                    people, kFewestSamples));
  }
  std::vector<double> impostor;
  for (std::size_t i = 0; i < people; ++i) {
    for (const std::size_t behind : {people / 2, people / 3 + 1, std::size_t{7}}) {
      impostor.push_back(inner_product(of.medoids[i], of.medoids[(i + behind) % people]));
    }
  }
  return {.same = same_threshold(of.genuine, impostor),
          .duplicate = duplicate_threshold(of.genuine)};
}

double nearest_threshold(const std::vector<double>& second) {
  // Means of Poisson distributions: P(N >= 2) = 0.5, P(N >= 2) = 0.84, P(N >= 1) = 0.05.
  constexpr double kMedian = 1.678347, kFar = 3.288524, kNear = 0.05129329;
  const double median = log_angle(quantile_of(second, 0.5));
  const double far = log_angle(quantile_of(second, 0.16));
  const double per_log_mean = (far - median) / std::log(kFar / kMedian);  // 1 / k
  return std::cos(std::exp(median - per_log_mean * std::log(kMedian / kNear)));
}

}  // namespace pfc
