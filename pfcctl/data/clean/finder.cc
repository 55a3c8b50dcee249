#include "pfcctl/data/clean/finder.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "common/error.h"
#include "kernels/make_ops.h"
#include "pfcctl/data/clean/agreeing_rows.h"
#include "pfcctl/data/clean/duplicates.h"
#include "pfcctl/data/clean/identity_centres.h"
#include "worker/head/sampling/class_neighbours.h"

namespace pfc {

namespace {

constexpr std::int64_t kCandidates = 4;          // centres of a suspected image with exact cosines
constexpr std::int64_t kSuspectsAtOnce = 65536;  // embeddings in memory
constexpr std::int64_t kSampledIdentities = 20'000;  // for the thresholds

/// Cosines of images of one identity, and medoids of several.
struct Samples {
  std::vector<double> genuine;
  std::vector<std::vector<float>> medoids;
};

/// An image that does not agree with its identity, and the identity that it belongs to.
struct Suspect {
  std::int64_t image = 0;
  std::int64_t belongs_to = -1;  ///< -1: to none
  double similarity = 0;         ///< mean cosine to the images of that identity that agree
  double cosine = 0;             ///< with the nearest other centre
};

class Finder {
 public:
  Finder(const LabelledEmbeddings& set, const FinderOptions& options)
      : set_(set),
        labels_(set.labels()),
        o_(options),
        ops_(make_ops({.choice = DeviceChoice::kCpu,
                       .cpu_threads = options.threads,
                       .precision = precisions_of(DeviceChoice::kCpu, 0).front()})),
        comm_(make_host_comm({}, nullptr)) {}

  FoundErrors find() {
    set_image_thresholds();
    centres_.emplace(set_, found_.thresholds.same, o_.threads,
                     show("computing centres", "identities"));
    find_nearest_identities();
    find_suspects();
    report_images();
    report_pairs_of_identities();
    report_duplicates();
    return std::move(found_);
  }

 private:
  [[nodiscard]] ShowIdentities show(const char* doing, const char* units) const {
    return [this, doing, units](std::int64_t done) {
      if (o_.progress) o_.progress(doing, units, done, labels_.identities());
    };
  }
  [[nodiscard]] bool has_images(std::int64_t identity) const {
    return centres_->agreeing(identity) > 0;
  }
  [[nodiscard]] double size_of(std::int64_t identity) const {
    return static_cast<double>(set_.members().of(identity).size());
  }
  [[nodiscard]] bool few_images(std::int64_t identity) const {
    return set_.members().of(identity).size() < kManyImages;
  }

  [[nodiscard]] Samples samples() const;
  void set_image_thresholds();
  [[nodiscard]] NeighbourOptions search_options(std::int64_t degree, const char* doing,
                                                const char* units) const;
  [[nodiscard]] ReadCentres read_centres() const;
  void find_nearest_identities();
  void find_suspects();
  void find_suspects(std::span<const std::int64_t> images);
  [[nodiscard]] Suspect suspect(std::int64_t image, std::span<const float> row,
                                std::span<const std::int32_t> candidates) const;
  void report_images();
  std::set<std::int64_t> report_second_people();
  void report_pairs_of_identities();
  [[nodiscard]] std::optional<Finding> same_person(std::int64_t a, std::int64_t b) const;
  [[nodiscard]] double part_near(std::int64_t identity, std::int64_t other) const;
  void report_duplicates();

  const LabelledEmbeddings& set_;
  const ImageLabels& labels_;
  const FinderOptions& o_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Comm> comm_;
  std::optional<IdentityCentres> centres_;
  ClassNeighbours nearest_;        // of each identity
  std::vector<Suspect> suspects_;  // by image, ascending
  FoundErrors found_;
};

/// Reads at most kSampledIdentities, at equal distances.
Samples Finder::samples() const {
  const std::int64_t all = labels_.identities();
  const std::int64_t distance = std::max<std::int64_t>(1, all / kSampledIdentities);
  Samples samples;
  for_identities<Samples>(
      all / distance, o_.threads,
      [&](std::int64_t i, Samples& to) {
        const auto images = set_.members().of(i * distance);
        if (images.size() < 3) return;
        const std::vector<float> rows = set_.rows(images);
        const std::size_t d = set_.dimension(), medoid = medoid_of(rows, d);
        const auto row = [&](std::size_t k) { return std::span(rows).subspan(k * d, d); };
        for (std::size_t k = 0; k < images.size(); ++k) {
          if (k != medoid) to.genuine.push_back(inner_product(row(k), row(medoid)));
        }
        to.medoids.emplace_back(row(medoid).begin(), row(medoid).end());
      },
      [&](Samples some) {
        std::ranges::move(some.genuine, std::back_inserter(samples.genuine));
        std::ranges::move(some.medoids, std::back_inserter(samples.medoids));
      },
      {});
  return samples;
}

void Finder::set_image_thresholds() {
  const Samples of = samples();
  const std::size_t people = of.medoids.size();
  if (people < kFewestSamples) {
    throw InputError(
        fmt::format("found {} identities with at least 3 usable images, expected {}: the "
                    "thresholds are set from them",
                    people, kFewestSamples));
  }
  std::vector<double> impostor;
  for (std::size_t i = 0; i < people; ++i) {
    for (const std::size_t behind : {people / 2, people / 3 + 1, std::size_t{7}}) {
      impostor.push_back(inner_product(of.medoids[i], of.medoids[(i + behind) % people]));
    }
  }
  found_.thresholds.same = same_person_threshold(of.genuine, impostor);
  found_.thresholds.duplicate = duplicate_threshold(of.genuine);
}

NeighbourOptions Finder::search_options(std::int64_t degree, const char* doing,
                                        const char* units) const {
  return {.positions = {.classes = labels_.identities()},
          .row_size = static_cast<std::int64_t>(set_.dimension()),
          .degree = std::min(degree, labels_.identities()),
          .progress = [this, doing, units](std::int64_t done, std::int64_t all) {
            if (o_.progress) o_.progress(doing, units, done, all);
          }};
}

ReadCentres Finder::read_centres() const {
  return [this](RowRange identities, std::span<float> rows) {
    for (std::int64_t i = identities.begin; i < identities.end; ++i) {
      std::ranges::copy(centres_->of(i),
                        rows.begin() + (i - identities.begin) * std::ssize(centres_->of(i)));
    }
  };
}

void Finder::find_nearest_identities() {
  nearest_ = find_neighbours(*ops_, *comm_,
                             search_options(kNearestIdentities, "comparing centres", "identities"),
                             read_centres());
  std::vector<double> cosines;
  for (std::int64_t i = 0; i < labels_.identities(); ++i) {
    const std::int32_t other = nearest_.of(i).front();
    if (!has_images(i) || other < 0 || !has_images(other)) continue;
    cosines.push_back(inner_product(centres_->of(i), centres_->of(other)));
  }
  found_.thresholds.nearest = nearest_threshold(cosines);
}

void Finder::find_suspects() {
  std::vector<std::int64_t> images;
  for (std::int64_t i = 0; i < labels_.images(); ++i) {
    const std::int64_t label = labels_.label(i);
    if (label < 0 || labels_.test(label)) continue;
    if (centres_->similarity(i) >= found_.thresholds.same) continue;
    images.push_back(i);
  }
  for (std::size_t begin = 0; begin < images.size(); begin += kSuspectsAtOnce) {
    find_suspects(std::span(images).subspan(
        begin, std::min<std::size_t>(kSuspectsAtOnce, images.size() - begin)));
  }
}

void Finder::find_suspects(std::span<const std::int64_t> images) {
  const std::vector<float> rows = set_.rows(images);
  const std::size_t d = set_.dimension();
  const auto row = [&](std::size_t i) { return std::span(rows).subspan(i * d, d); };
  const ClassNeighbours candidates = find_nearest(
      *ops_, *comm_, search_options(kCandidates, "comparing suspected images", "images"),
      read_centres(),
      {.count = std::ssize(images), .read = [&](RowRange queries, std::span<float> to) {
         std::ranges::copy(
             std::span(rows).subspan(static_cast<std::size_t>(queries.begin) * d, to.size()),
             to.begin());
       }});
  for (std::size_t i = 0; i < images.size(); ++i) {
    suspects_.push_back(suspect(images[i], row(i), candidates.of(static_cast<std::int64_t>(i))));
  }
}

Suspect Finder::suspect(std::int64_t image, std::span<const float> row,
                        std::span<const std::int32_t> candidates) const {
  Suspect of{.image = image, .cosine = -1};
  std::int64_t best = -1;
  for (const std::int32_t identity : candidates) {
    if (identity < 0 || identity == labels_.label(image) || !has_images(identity)) continue;
    const double cosine = inner_product(row, centres_->of(identity));
    if (cosine > of.cosine || (cosine == of.cosine && identity < best)) {
      of.cosine = cosine;
      best = identity;
    }
  }
  if (best < 0 || of.cosine < found_.thresholds.nearest) return of;
  of.similarity = of.cosine * centres_->length(best);
  if (of.similarity > std::max(found_.thresholds.same, centres_->similarity(image))) {
    of.belongs_to = best;
  }
  return of;
}

/// Reports identities of two people. Returns the images of the second people.
std::set<std::int64_t> Finder::report_second_people() {
  std::set<std::int64_t> reported;
  for (const SecondPerson& second : centres_->second_people()) {
    std::map<std::int64_t, std::size_t> votes;
    for (const std::int64_t image : second.images) {
      const auto suspect = std::ranges::lower_bound(suspects_, image, {}, &Suspect::image);
      if (suspect != suspects_.end() && suspect->image == image && suspect->belongs_to >= 0) {
        ++votes[suspect->belongs_to];
      }
    }
    // Most images of the second person have an identity of their own: they have wrong labels.
    if (std::ranges::any_of(
            votes, [&](const auto& vote) { return 2 * vote.second > second.images.size(); })) {
      continue;
    }
    reported.insert(second.images.begin(), second.images.end());
    found_.findings.push_back({.kind = FindingKind::kTwoPeople,
                               .identity = second.identity,
                               .images = second.images,
                               .score = second.within - second.between,
                               .few_images = few_images(second.identity),
                               .evidence = {{"similarity_within", second.within},
                                            {"similarity_between", second.between},
                                            {"images_of_identity", size_of(second.identity)}}});
  }
  return reported;
}

void Finder::report_images() {
  const std::set<std::int64_t> second_people = report_second_people();
  for (const Suspect& suspect : suspects_) {
    const std::int64_t label = labels_.label(suspect.image);
    if (second_people.contains(suspect.image)) continue;
    const bool belongs = suspect.belongs_to >= 0;
    // A stranger contradicts at least two images that agree.
    if (!belongs && centres_->agreeing(label) < 2) continue;
    const double own = centres_->similarity(suspect.image);
    Finding finding{.kind = belongs ? FindingKind::kWrongLabel : FindingKind::kStranger,
                    .image = suspect.image,
                    .identity = label,
                    .other_identity = suspect.belongs_to,
                    .score = belongs ? suspect.similarity - own : -own,
                    .few_images = few_images(label),
                    .evidence = {{"similarity_to_own", own},
                                 {"cosine_with_nearest_other", suspect.cosine},
                                 {"images_of_identity", size_of(label)}}};
    if (belongs) finding.evidence.emplace_back("similarity_to_other", suspect.similarity);
    found_.findings.push_back(std::move(finding));
  }
}

/// Returns the part of the agreeing images of an identity that also agree with another one.
double Finder::part_near(std::int64_t identity, std::int64_t other) const {
  std::vector<float> row(set_.dimension());
  std::int64_t near = 0;
  const auto images = set_.members().of(identity);
  const bool one_agrees = centres_->agreeing(identity) == 1;  // the others contradict it
  for (const std::int64_t image : images) {
    if (!centres_->agrees(image) && !one_agrees) continue;
    set_.read(image, row);
    const double similarity = inner_product(row, centres_->of(other)) * centres_->length(other);
    if (similarity >= found_.thresholds.same) ++near;
  }
  return static_cast<double>(near) / (one_agrees
                                          ? static_cast<double>(images.size())
                                          : static_cast<double>(centres_->agreeing(identity)));
}

std::optional<Finding> Finder::same_person(std::int64_t a, std::int64_t b) const {
  const double cosine = inner_product(centres_->of(a), centres_->of(b));
  if (cosine < found_.thresholds.nearest) return std::nullopt;
  const double near_a = part_near(a, b), near_b = part_near(b, a);
  if (near_a <= 0.5 || near_b <= 0.5) return std::nullopt;
  if (labels_.test(a)) std::swap(a, b);
  const double similarity = cosine * centres_->length(a) * centres_->length(b);
  return Finding{
      .kind = labels_.test(b) ? FindingKind::kLeaked : FindingKind::kSamePerson,
      .identity = a,
      .other_identity = b,
      .score = similarity,
      .few_images = set_.members().of(a).size() + set_.members().of(b).size() < kManyImages,
      .evidence = {{"similarity", similarity},
                   {"cosine_of_centres", cosine},
                   {"part_of_images_near", std::min(near_a, near_b)},
                   {"images_of_identity", size_of(a)},
                   {"images_of_other", size_of(b)}}};
}

/// Compares each pair of identities once, if one is among the nearest of the other.
void Finder::report_pairs_of_identities() {
  using Findings = std::vector<Finding>;
  for_identities<Findings>(
      labels_.identities(), o_.threads,
      [&](std::int64_t a, Findings& to) {
        for (const std::int64_t b : nearest_.of(a)) {
          if (b < 0 || !has_images(a) || !has_images(b)) continue;
          if (b < a && std::ranges::count(nearest_.of(b), a) > 0) continue;
          if (labels_.test(a) && labels_.test(b)) continue;
          if (auto finding = same_person(a, b)) to.push_back(std::move(*finding));
        }
      },
      [&](Findings some) { std::ranges::move(some, std::back_inserter(found_.findings)); },
      show("comparing identities", "identities"));
}

void Finder::report_duplicates() {
  const DuplicateSearch search(set_, *centres_, found_.thresholds.duplicate);
  std::vector<DuplicateImage> all;
  const auto add = [&](std::vector<DuplicateImage> some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for_identities<std::vector<DuplicateImage>>(
      labels_.identities(), o_.threads,
      [&](std::int64_t i, std::vector<DuplicateImage>& to) {
        std::vector<std::int64_t> others;
        for (const std::int64_t other : nearest_.of(i)) {
          if (other < 0 || (other < i && std::ranges::count(nearest_.of(other), i) > 0)) continue;
          others.push_back(other);
        }
        std::ranges::copy(search.among(i, others), std::back_inserter(to));
      },
      add, show("comparing images", "identities"));
  for (const Suspect& suspect : suspects_) {
    if (suspect.belongs_to >= 0) add(search.with(suspect.image, suspect.belongs_to));
  }
  keep_most_similar(all);
  for (const DuplicateImage& d : all) {
    found_.findings.push_back(
        {.kind = FindingKind::kDuplicate,
         .image = d.drop,
         .other_image = d.keep,
         .identity = labels_.label(d.drop),
         .other_identity = labels_.label(d.keep),
         .score = d.cosine,
         .few_images = few_images(labels_.label(d.drop)),
         .evidence = {{"cosine", d.cosine},
                      {"images_of_identity", size_of(labels_.label(d.drop))}}});
  }
}

}  // namespace

FoundErrors find_errors(const LabelledEmbeddings& set, const FinderOptions& options) {
  return Finder(set, options).find();
}

}  // namespace pfc
