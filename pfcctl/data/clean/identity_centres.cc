#include "pfcctl/data/clean/identity_centres.h"

#include <cmath>
#include <iterator>

#include "pfcctl/data/clean/agreeing_rows.h"
#include "worker/head/row_copy.h"

namespace pfc {

namespace {

/// Returns the second person among the images that do not agree with the centre, if at least two
/// agree with each other.
SecondPerson second_person(std::span<const std::int64_t> images, std::span<const float> rows,
                           const AgreeingRows& first, std::size_t dimension, double same) {
  std::vector<std::size_t> others;
  std::vector<float> rest;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (first.kept[i]) continue;
    others.push_back(i);
    const auto row = rows.subspan(i * dimension, dimension);
    rest.insert(rest.end(), row.begin(), row.end());
  }
  SecondPerson found;
  if (others.size() < 2) return found;
  const AgreeingRows second = agreeing_rows(rest, dimension, same);
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

IdentityCentres::IdentityCentres(const LabelledEmbeddings& set, double same, int threads,
                                 const ShowIdentities& show)
    : set_(set), d_(set.dimension()) {
  const auto identities = static_cast<std::size_t>(set.labels().identities());
  const auto images = static_cast<std::size_t>(set.labels().images());
  centres_.resize(identities * d_);
  lengths_.resize(identities);
  agreeing_.resize(identities);
  similarities_.resize(images, 1);
  angles_.resize(images);
  agrees_.resize(images);
  for_identities<std::vector<SecondPerson>>(
      set.labels().identities(), threads,
      [&](std::int64_t i, std::vector<SecondPerson>& found) { add(i, same, found); },
      [&](std::vector<SecondPerson> found) {
        std::ranges::move(found, std::back_inserter(second_people_));
      },
      show);
}

/// Writes only to this identity's elements, so several threads need no lock.
void IdentityCentres::add(std::int64_t identity, double same,
                          std::vector<SecondPerson>& second_people) {
  const std::span<const std::int64_t> images = set_.members().of(identity);
  if (images.empty()) return;
  const std::vector<float> rows = set_.rows(images);
  const AgreeingRows of = agreeing_rows(rows, d_, same);
  const auto place = static_cast<std::size_t>(identity);
  const auto centre = std::span(centres_).subspan(place * d_, d_);
  std::ranges::copy(of.mean, centre.begin());
  lengths_[place] = static_cast<float>(std::sqrt(inner_product(of.mean, of.mean)));
  agreeing_[place] = static_cast<std::int64_t>(of.count);
  normalise(centre);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto image = static_cast<std::size_t>(images[i]);
    similarities_[image] = of.similarity[i];
    angles_[image] =
        static_cast<float>(angle_of(inner_product(std::span(rows).subspan(i * d_, d_), centre)));
    agrees_[image] = of.kept[i] ? 1 : 0;
  }
  if (of.count < 2 || set_.labels().test(identity)) return;
  SecondPerson second = second_person(images, rows, of, d_, same);
  if (second.images.empty()) return;
  second.identity = identity;
  second_people.push_back(std::move(second));
}

}  // namespace pfc
