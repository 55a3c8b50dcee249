#include "pfcctl/data/clean/finder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "kernels/make_ops.h"
#include "pfcctl/data/clean/duplicates.h"
#include "pfcctl/data/clean/identity_centres.h"
#include "pfcctl/data/progress.h"
#include "worker/head/sampling/class_neighbours.h"

namespace pfc {

namespace {

constexpr std::int64_t kCandidates = 4;  // nearest centres of a suspect, compared again exactly
constexpr std::int64_t kImagesAtOnce = 65536;  // embeddings in memory
constexpr std::int64_t kSampled = 20'000;      // images, and centres, for thresholds

/// An image whose similarity to its identity is below thresholds.same, and where it belongs.
struct Suspect {
  std::int64_t image = 0;
  std::int64_t belongs_to = -1;  ///< -1: to none
  double similarity = 0;         ///< mean cosine to the images of that identity that agree
  double cosine = -1;            ///< with the nearest other centre
};

class Finder {
 public:
  Finder(const LabelledEmbeddings& set, const CleaningThresholds& thresholds, int threads,
         Thumbnails* thumbnails)
      : set_(set),
        labels_(set.labels()),
        threads_(threads),
        thumbnails_(thumbnails),
        ops_(make_ops({.choice = DeviceChoice::kCpu,
                       .cpu_threads = threads,
                       .precision = precisions_of(DeviceChoice::kCpu, 0).front()})),
        comm_(make_host_comm({}, nullptr)),
        found_{.thresholds = thresholds, .findings = {}, .agrees = {}},
        centres_(set, found_.thresholds.same, threads) {}

  FoundErrors find() {
    find_nearest_identities();
    set_thresholds();
    find_suspects();
    report_images(report_second_people());
    compare_identities();
    for (std::int64_t i = 0; i < labels_.images(); ++i) {
      found_.agrees.push_back(centres_.image(i).agrees);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] double size_of(std::int64_t identity) const {
    return static_cast<double>(set_.members().of(identity).size());
  }
  [[nodiscard]] bool few_images(std::int64_t identity) const {
    return set_.members().of(identity).size() < kManyImages;
  }
  [[nodiscard]] NeighbourOptions search_options(std::int64_t degree, Progress& progress) const {
    return {.positions = {.classes = labels_.identities()},
            .row_size = static_cast<std::int64_t>(set_.dimension()),
            .degree = std::min(degree, labels_.identities()),
            .progress = progress.as_function()};
  }
  void read_centres(RowRange identities, std::span<float> rows) const {
    for (std::int64_t i = identities.begin; i < identities.end; ++i) {
      std::ranges::copy(centres_.of(i),
                        rows.begin() + (i - identities.begin) * std::ssize(centres_.of(i)));
    }
  }

  void find_nearest_identities();
  [[nodiscard]] ClassNeighbours candidates_of(const char* doing, std::int64_t identities,
                                              std::span<const float> rows) const;
  [[nodiscard]] double threshold_of(const char* doing, std::span<const float> rows,
                                    std::span<const std::int64_t> identities) const;
  void set_thresholds();
  void find_suspects();
  void find_suspects(std::span<const std::int64_t> images);
  [[nodiscard]] Suspect suspect(std::int64_t image, std::span<const float> row,
                                std::span<const std::int32_t> candidates) const;
  std::set<std::int64_t> report_second_people();
  void report_images(const std::set<std::int64_t>& second_people);
  [[nodiscard]] double part_near(std::int64_t identity, std::int64_t other) const;
  void compare(std::int64_t a, std::int64_t b, std::vector<Finding>& to) const;
  void compare_identities();
  void report_duplicates(std::vector<DuplicateImage> all);

  const LabelledEmbeddings& set_;
  const ImageLabels& labels_;
  const int threads_;
  Thumbnails* const thumbnails_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Comm> comm_;
  FoundErrors found_;
  const IdentityCentres centres_;
  ClassNeighbours nearest_;        // of each identity
  std::vector<Suspect> suspects_;  // by image, ascending
};

void Finder::find_nearest_identities() {
  Progress progress("comparing centres", "identities");
  nearest_ = find_neighbours(
      *ops_, *comm_, search_options(kNearestIdentities, progress),
      [this](RowRange identities, std::span<float> rows) { read_centres(identities, rows); });
  // The centre of an identity without images is zero, so it can be among the nearest.
  for (std::int64_t i = 0; i < labels_.identities(); ++i) {
    for (std::int64_t k = 0; k < nearest_.degree; ++k) {
      std::int32_t& other = nearest_.table[static_cast<std::size_t>(i * nearest_.degree + k)];
      if (other >= 0 && (centres_.agreeing(i) == 0 || centres_.agreeing(other) == 0)) other = -1;
    }
  }
}

/// Returns the nearest ones of the first `identities` identities.
ClassNeighbours Finder::candidates_of(const char* doing, std::int64_t identities,
                                      std::span<const float> rows) const {
  const std::size_t d = set_.dimension();
  Progress progress(doing, "rows");
  NeighbourOptions options = search_options(kCandidates, progress);
  options.positions.classes = identities;
  options.degree = std::min(kCandidates, identities);
  return find_nearest(*ops_, *comm_, options,
                      [this](RowRange classes, std::span<float> to) { read_centres(classes, to); },
                      {.count = static_cast<std::int64_t>(rows.size() / d),
                       .read = [&](RowRange queries, std::span<float> to) {
                         std::ranges::copy(
                             rows.subspan(static_cast<std::size_t>(queries.begin) * d, to.size()),
                             to.begin());
                       }});
}

/// Returns nearest_threshold() of rows that belong to these identities; 1 if it is unknown.
double Finder::threshold_of(const char* doing, std::span<const float> rows,
                            std::span<const std::int64_t> identities) const {
  if (identities.empty()) return 1;
  // Without the test set: it may have the same people, and some of them several times.
  const auto own = std::ranges::find(labels_.is_test, true) - labels_.is_test.begin();
  const ClassNeighbours near = candidates_of(doing, own, rows);
  std::vector<double> cosines;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    std::int64_t before = 0;
    for (const std::int32_t other : near.of(static_cast<std::int64_t>(i))) {
      const bool is_other = other >= 0 && other != identities[i] && centres_.agreeing(other) > 0;
      if (!is_other || before++ == 0) continue;
      cosines.push_back(
          inner_product(rows.subspan(i * set_.dimension(), set_.dimension()), centres_.of(other)));
      break;
    }
  }
  return cosines.empty() ? 1 : nearest_threshold(cosines);
}

/// Sets thresholds.nearest and thresholds.belongs from samples of the centres, and of the images
/// that agree with their identity.
void Finder::set_thresholds() {
  const auto step = [](std::int64_t count) { return (count + kSampled - 1) / kSampled; };
  std::vector<std::int64_t> images, identities;
  for (std::int64_t i = 0; i < labels_.images(); i += step(labels_.images())) {
    const std::int64_t label = labels_.label(i);
    if (label < 0 || labels_.test(label) || !centres_.image(i).agrees) continue;
    images.push_back(i);
    identities.push_back(label);
  }
  found_.thresholds.belongs = threshold_of("sampling images", set_.rows(images), identities);

  std::vector<float> centres;
  identities.clear();
  for (std::int64_t i = 0; i < labels_.identities(); i += step(labels_.identities())) {
    if (labels_.test(i) || centres_.agreeing(i) == 0) continue;
    identities.push_back(i);
    centres.insert(centres.end(), centres_.of(i).begin(), centres_.of(i).end());
  }
  found_.thresholds.nearest = threshold_of("sampling centres", centres, identities);
}

void Finder::find_suspects() {
  std::vector<std::int64_t> images;
  for (std::int64_t i = 0; i < labels_.images(); ++i) {
    const std::int64_t label = labels_.label(i);
    if (label < 0 || labels_.test(label)) continue;
    if (centres_.image(i).similarity < found_.thresholds.same) images.push_back(i);
  }
  for (std::size_t begin = 0; begin < images.size(); begin += kImagesAtOnce) {
    find_suspects(std::span(images).subspan(
        begin, std::min<std::size_t>(kImagesAtOnce, images.size() - begin)));
  }
}

void Finder::find_suspects(std::span<const std::int64_t> images) {
  const std::vector<float> rows = set_.rows(images);
  const std::size_t d = set_.dimension();
  const ClassNeighbours candidates =
      candidates_of("comparing suspected images", labels_.identities(), rows);
  for (std::size_t i = 0; i < images.size(); ++i) {
    suspects_.push_back(suspect(images[i], std::span(rows).subspan(i * d, d),
                                candidates.of(static_cast<std::int64_t>(i))));
  }
}

Suspect Finder::suspect(std::int64_t image, std::span<const float> row,
                        std::span<const std::int32_t> candidates) const {
  Suspect of{.image = image};
  std::int64_t best = -1;
  for (const std::int32_t other : candidates) {
    if (other < 0 || other == labels_.label(image) || centres_.agreeing(other) == 0) continue;
    const double cosine = inner_product(row, centres_.of(other));
    if (cosine > of.cosine || (cosine == of.cosine && other < best)) {
      of.cosine = cosine;
      best = other;
    }
  }
  if (best < 0 || of.cosine < found_.thresholds.belongs) return of;
  of.similarity = of.cosine * centres_.length(best);
  if (of.similarity > std::max<double>(found_.thresholds.same, centres_.image(image).similarity)) {
    of.belongs_to = best;
  }
  return of;
}

/// Reports identities of two people. Returns the images of the second people.
std::set<std::int64_t> Finder::report_second_people() {
  std::set<std::int64_t> reported;
  for (const SecondPerson& second : centres_.second_people()) {
    std::map<std::int64_t, std::size_t> votes;
    for (const std::int64_t image : second.images) {
      const auto suspect = std::ranges::lower_bound(suspects_, image, {}, &Suspect::image);
      if (suspect != suspects_.end() && suspect->image == image && suspect->belongs_to >= 0) {
        ++votes[suspect->belongs_to];
      }
    }
    // Most images of the second person belong to one other identity: they have wrong labels.
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

void Finder::report_images(const std::set<std::int64_t>& second_people) {
  for (const Suspect& suspect : suspects_) {
    const std::int64_t label = labels_.label(suspect.image);
    const bool belongs = suspect.belongs_to >= 0;
    // A stranger contradicts at least two images that agree.
    if (second_people.contains(suspect.image) || (!belongs && centres_.agreeing(label) < 2)) {
      continue;
    }
    const double own = centres_.image(suspect.image).similarity;
    Finding finding{.kind = belongs ? FindingKind::kWrongLabel : FindingKind::kStranger,
                    .image = suspect.image,
                    .identity = label,
                    .other_identity = suspect.belongs_to,
                    .score = belongs ? suspect.similarity - own : -own,
                    .few_images = few_images(label),
                    .evidence = {{kSimilarityToOwn, own},
                                 {"cosine_with_nearest_other", suspect.cosine},
                                 {"images_of_identity", size_of(label)}}};
    if (belongs) finding.evidence.emplace_back("similarity_to_other", suspect.similarity);
    found_.findings.push_back(std::move(finding));
  }
}

/// Returns the fraction of the agreeing images of an identity that also agree with another one. If
/// only one agrees, the others contradict it and count too.
double Finder::part_near(std::int64_t identity, std::int64_t other) const {
  std::vector<float> row(set_.dimension());
  double near = 0, all = 0;
  for (const std::int64_t image : set_.members().of(identity)) {
    if (!centres_.image(image).agrees && centres_.agreeing(identity) > 1) continue;
    set_.read(image, row);
    const double similarity = inner_product(row, centres_.of(other)) * centres_.length(other);
    near += similarity >= found_.thresholds.same ? 1 : 0;
    ++all;
  }
  return near / all;
}

/// Adds a finding if two identities are one person.
void Finder::compare(std::int64_t a, std::int64_t b, std::vector<Finding>& to) const {
  if (labels_.test(a)) std::swap(a, b);
  const double cosine = inner_product(centres_.of(a), centres_.of(b));
  if (labels_.test(a) || cosine < found_.thresholds.nearest) return;
  const double near = std::min(part_near(a, b), part_near(b, a));
  if (near <= 0.5) return;
  const double similarity = cosine * centres_.length(a) * centres_.length(b);
  to.push_back({.kind = labels_.test(b) ? FindingKind::kLeaked : FindingKind::kSamePerson,
                .identity = a,
                .other_identity = b,
                .score = similarity,
                .few_images = size_of(a) + size_of(b) < kManyImages,
                .evidence = {{"similarity", similarity},
                             {"cosine_of_centres", cosine},
                             {"part_of_images_near", near},
                             {"images_of_identity", size_of(a)},
                             {"images_of_other", size_of(b)}}});
}

/// Compares each pair of identities once, if one is among the nearest of the other.
void Finder::compare_identities() {
  struct Pairs {
    std::vector<Finding> people;
    std::vector<DuplicateImage> images;
  };
  const DuplicateSearch search{set_, centres_, found_.thresholds.duplicate, thumbnails_};
  std::vector<DuplicateImage> duplicates;
  for_identities<Pairs>(
      "comparing images", labels_.identities(), threads_,
      [&](std::int64_t a, Pairs& to) {
        std::vector<std::int64_t> others;
        for (const std::int32_t b : nearest_.of(a)) {
          if (b < 0 || (b < a && std::ranges::count(nearest_.of(b), a) > 0)) continue;
          others.push_back(b);
          compare(a, b, to.people);
        }
        std::ranges::copy(search.among(a, others), std::back_inserter(to.images));
      },
      [&](Pairs some) {
        std::ranges::move(some.people, std::back_inserter(found_.findings));
        std::ranges::copy(some.images, std::back_inserter(duplicates));
      });
  std::vector<std::vector<std::int64_t>> belong_to(static_cast<std::size_t>(labels_.identities()));
  for (const Suspect& s : suspects_) {
    if (s.belongs_to >= 0) belong_to[static_cast<std::size_t>(s.belongs_to)].push_back(s.image);
  }
  using Duplicates = std::vector<DuplicateImage>;
  for_identities<Duplicates>(
      "comparing suspected images", labels_.identities(), threads_,
      [&](std::int64_t i, Duplicates& to) {
        const auto& images = belong_to[static_cast<std::size_t>(i)];
        if (!images.empty()) std::ranges::copy(search.between(images, i), std::back_inserter(to));
      },
      [&](const Duplicates& some) { std::ranges::copy(some, std::back_inserter(duplicates)); });
  report_duplicates(std::move(duplicates));
}

void Finder::report_duplicates(std::vector<DuplicateImage> all) {
  keep_most_similar(all);
  for (const DuplicateImage& d : all) {
    const std::int64_t label = labels_.label(d.drop);
    found_.findings.push_back(
        {.kind = FindingKind::kDuplicate,
         .image = d.drop,
         .other_image = d.keep,
         .identity = label,
         .other_identity = labels_.label(d.keep),
         .score = d.cosine,
         .few_images = few_images(label),
         .same_pixels = thumbnails_ != nullptr,
         .evidence = {{"cosine", d.cosine}, {"images_of_identity", size_of(label)}}});
    if (thumbnails_ != nullptr) {
      found_.findings.back().evidence.emplace_back("correlation_of_pixels", d.correlation);
    }
  }
}

}  // namespace

FoundErrors find_errors(const LabelledEmbeddings& set, const CleaningThresholds& thresholds,
                        int threads, Thumbnails* thumbnails) {
  return Finder(set, thresholds, threads, thumbnails).find();
}

}  // namespace pfc
