#include "pfcctl/data/clean/identity_centres.h"

#include <cmath>
#include <iterator>

#include "worker/head/row_copy.h"

namespace pfc {

namespace {

struct Rows {
  std::span<const float> numbers;
  std::size_t d;
  [[nodiscard]] std::size_t size() const { return numbers.size() / d; }
  std::span<const float> operator[](std::size_t i) const { return numbers.subspan(i * d, d); }
};

std::vector<float> sum_of(const Rows& rows, const std::vector<bool>& chosen) {
  std::vector<double> sum(rows.d);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t k = 0; chosen[i] && k < rows.d; ++k) sum[k] += rows[i][k];
  }
  return {sum.begin(), sum.end()};
}

/// Returns the chosen row with the largest mean cosine to the chosen ones; of several, the first.
std::size_t chosen_medoid(const Rows& rows, const std::vector<bool>& chosen) {
  const std::vector<float> sum = sum_of(rows, chosen);
  std::size_t best = 0;
  double most = -2.0 * static_cast<double>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double products = chosen[i] ? inner_product(rows[i], sum) : most;
    if (products <= most + 1e-6) continue;  // rounding must not decide between equal rows
    best = i;
    most = products;
  }
  return best;
}

/// Sets the other members from `kept`.
void measure(const Rows& rows, AgreeingRows& of) {
  const std::size_t n = rows.size();
  of.count = static_cast<std::size_t>(std::ranges::count(of.kept, true));
  of.mean = sum_of(rows, of.kept);
  const std::vector<float> sum = of.count > 1 ? of.mean : sum_of(rows, std::vector<bool>(n, true));
  of.similarity.assign(n, 1);
  for (std::size_t i = 0; i < n && n > 1; ++i) {
    if (!of.kept[i]) {
      of.similarity[i] =
          static_cast<float>(inner_product(rows[i], of.mean) / static_cast<double>(of.count));
    } else {  // without its product with itself
      const std::size_t others = (of.count > 1 ? of.count : n) - 1;
      of.similarity[i] =
          static_cast<float>((inner_product(rows[i], sum) - 1) / static_cast<double>(others));
    }
  }
  for (float& x : of.mean) x /= static_cast<float>(of.count);
}

AgreeingRows agreeing_with(const Rows& rows, std::size_t medoid, double same) {
  AgreeingRows of;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    of.kept.push_back(i == medoid || inner_product(rows[i], rows[medoid]) >= same);
  }
  measure(rows, of);
  for (int round = 0; round < 4 && of.count > 1; ++round) {
    std::vector<bool> kept;
    for (const float s : of.similarity) kept.push_back(s >= same);
    if (kept == of.kept || std::ranges::count(kept, true) == 0) break;
    of.kept = std::move(kept);
    measure(rows, of);
  }
  return of;
}

/// Returns the second person among the images that do not agree with the centre, if at least two
/// agree with each other.
SecondPerson second_person(std::span<const std::int64_t> images, const Rows& rows,
                           const AgreeingRows& first, double same) {
  std::vector<std::size_t> others;
  std::vector<float> rest;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (first.kept[i]) continue;
    others.push_back(i);
    rest.insert(rest.end(), rows[i].begin(), rows[i].end());
  }
  SecondPerson found;
  if (others.size() < 2) return found;
  const AgreeingRows second = agreeing_rows(rest, rows.d, same);
  if (second.count < 2) return found;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!second.kept[i]) continue;
    found.images.push_back(images[others[i]]);
    found.within += second.similarity[i] / static_cast<double>(second.count);
    found.between += first.similarity[others[i]] / static_cast<double>(second.count);
  }
  return found;
}

}  // namespace

double angle_of(double cosine) { return std::acos(std::clamp(cosine, -1.0, 1.0)); }

std::size_t medoid_of(std::span<const float> rows, std::size_t dimension) {
  return chosen_medoid(Rows{rows, dimension}, std::vector<bool>(rows.size() / dimension, true));
}

AgreeingRows agreeing_rows(std::span<const float> numbers, std::size_t dimension, double same) {
  const Rows rows{numbers, dimension};
  AgreeingRows first = agreeing_with(rows, medoid_of(numbers, dimension), same);
  if (2 * first.count >= rows.size()) return first;
  std::vector<bool> others = first.kept;
  others.flip();
  AgreeingRows second = agreeing_with(rows, chosen_medoid(rows, others), same);
  return second.count > first.count ? second : first;
}

IdentityCentres::IdentityCentres(const LabelledEmbeddings& set, double same, int threads)
    : d_(set.dimension()) {
  const auto identities = static_cast<std::size_t>(set.labels().identities());
  centres_.resize(identities * d_);
  lengths_.resize(identities);
  agreeing_.resize(identities);
  images_.resize(static_cast<std::size_t>(set.labels().images()));
  using Found = std::vector<SecondPerson>;
  for_identities<Found>(
      "computing centres", set.labels().identities(), threads,
      [&](std::int64_t i, Found& found) { add(set, i, same, found); },
      [&](Found found) { std::ranges::move(found, std::back_inserter(second_people_)); });
}

/// Writes only to this identity's elements, so several threads need no lock.
void IdentityCentres::add(const LabelledEmbeddings& set, std::int64_t identity, double same,
                          std::vector<SecondPerson>& second_people) {
  const std::span<const std::int64_t> images = set.members().of(identity);
  if (images.empty()) return;
  const std::vector<float> numbers = set.rows(images);
  const Rows rows{numbers, d_};
  const AgreeingRows of = agreeing_rows(numbers, d_, same);
  const auto place = static_cast<std::size_t>(identity);
  const auto centre = std::span(centres_).subspan(place * d_, d_);
  std::ranges::copy(of.mean, centre.begin());
  lengths_[place] = static_cast<float>(std::sqrt(inner_product(of.mean, of.mean)));
  agreeing_[place] = static_cast<std::int64_t>(of.count);
  normalise(centre);
  for (std::size_t i = 0; i < images.size(); ++i) {
    images_[static_cast<std::size_t>(images[i])] = {
        .similarity = of.similarity[i],
        .angle = static_cast<float>(angle_of(inner_product(rows[i], centre))),
        .agrees = of.kept[i]};
  }
  if (of.count < 2 || set.labels().test(identity)) return;
  SecondPerson second = second_person(images, rows, of, same);
  if (second.images.empty()) return;
  second.identity = identity;
  second_people.push_back(std::move(second));
}

}  // namespace pfc
