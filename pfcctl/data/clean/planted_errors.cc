#include "pfcctl/data/clean/planted_errors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "kernels/math/philox.h"

namespace pfc {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Planter {
 public:
  Planter(const ImageLabels& labels, const FoundErrors& found, std::uint64_t seed)
      : seed_(seed), members_(labels) {
    planted_.labels = labels;
    planted_.person = labels.of_image;
    trust(found);
    for (std::int64_t i = 0; i < labels.identities(); ++i) {
      planted_.home.push_back(i);
      if (labels.test(i) || !planted_.trusted_people[at(i)]) continue;
      people_.push_back(i);
      std::ranges::copy_if(members_.of(i), std::back_inserter(images_),
                           [&](std::int64_t image) { return unchanged_[at(image)]; });
    }
  }

  PlantedErrors plant() {
    const std::int64_t some = number_of(people_);
    if (some == 0) return std::move(planted_);
    const bool has_test = std::ranges::count(planted_.labels.is_test, true) > 0;
    order_ = shuffled(kOrder, people_);
    for (std::int64_t n = 0; n < some; ++n) halve(ErrorKind::kSplit);
    for (std::int64_t n = 0; n < some && has_test; ++n) halve(ErrorKind::kLeaked);
    for (std::int64_t n = 0; n < some; ++n) merge();
    for (std::int64_t n = 0; n < (some + 9) / 10; ++n) {
      for (const std::int64_t image : members_.of(next_person())) {
        if (unchanged_[at(image)]) flip(image);
      }
    }
    for (const std::int64_t image : some_images(kFlip)) {
      if (unchanged_[at(image)] && !planted_.labels.test(label(image))) flip(image);
    }
    copy();
    return std::move(planted_);
  }

 private:
  // Start at 16, because other users of Stream::kShuffle have smaller numbers.
  enum Purpose : std::uint32_t { kOrder = 16, kFlip, kTarget, kCopy, kDirection, kHalf };

  /// Sets trusted_images and trusted_people.
  void trust(const FoundErrors& found) {
    planted_.trusted_images = found.agrees;
    for (std::int64_t i = 0; i < planted_.labels.identities(); ++i) {
      planted_.trusted_people.push_back(std::ranges::count_if(members_.of(i), [&](auto image) {
                                          return found.agrees[at(image)];
                                        }) >= 2);
    }
    for (const Finding& f : found.findings) {
      for (const std::int64_t image : f.images) planted_.trusted_images[at(image)] = false;
      if (f.image >= 0) {
        planted_.trusted_images[at(f.image)] = false;
      } else {
        planted_.trusted_people[at(f.identity)] = false;
        if (f.other_identity >= 0) planted_.trusted_people[at(f.other_identity)] = false;
      }
    }
    unchanged_ = planted_.trusted_images;
  }

  [[nodiscard]] std::uint64_t word(Purpose purpose, std::int64_t element) const {
    const Philox4 random =
        random_words(seed_, Stream::kShuffle, purpose, static_cast<std::uint64_t>(element));
    return std::uint64_t{random.x[0]} << 32 | random.x[1];
  }
  [[nodiscard]] std::vector<std::int64_t> shuffled(Purpose purpose,
                                                   std::vector<std::int64_t> elements) const {
    std::ranges::sort(elements, {}, [&](std::int64_t i) { return std::pair(word(purpose, i), i); });
    return elements;
  }
  static std::int64_t number_of(const std::vector<std::int64_t>& all) {
    return std::min(std::max<std::int64_t>(std::ssize(all) / 100, 100), std::ssize(all) / 16);
  }
  [[nodiscard]] std::vector<std::int64_t> some_images(Purpose purpose) const {
    std::vector<std::int64_t> images = shuffled(purpose, images_);
    images.resize(at(number_of(images_)));
    return images;
  }

  std::int64_t& label(std::int64_t image) { return planted_.labels.of_image[at(image)]; }
  [[nodiscard]] bool small(std::int64_t person) const {
    return members_.of(person).size() < kManyImages;
  }
  /// Returns a person who was not changed. plant() changes at most a third of the people.
  std::int64_t next_person() { return order_[next_++]; }

  /// Moves half of the images of a person to a new identity.
  void halve(ErrorKind kind) {
    const std::int64_t person = next_person(), added = planted_.labels.identities();
    planted_.labels.is_test.push_back(kind == ErrorKind::kLeaked);
    const auto images = members_.of(person);
    const auto order = shuffled(kHalf, {images.begin(), images.end()});
    for (std::size_t k = 0; k < order.size() / 2; ++k) label(order[k]) = added;
    planted_.errors.push_back({.kind = kind, .identity = added, .small = small(person)});
  }

  void merge() {
    const std::int64_t one = next_person(), two = next_person();
    for (const std::int64_t image : members_.of(two)) label(image) = one;
    planted_.home[at(two)] = one;
    planted_.errors.push_back(
        {.kind = ErrorKind::kMerged, .identity = one, .small = small(one) || small(two)});
  }

  void flip(std::int64_t image) {
    give_other_label(image);
    unchanged_[at(image)] = false;
    planted_.errors.push_back(
        {.kind = ErrorKind::kFlipped, .image = image, .small = small(planted_.person[at(image)])});
  }

  void give_other_label(std::int64_t image) {
    const auto place = word(kTarget, image) % people_.size();
    std::int64_t target = people_[place];
    if (target == label(image)) target = people_[(place + 1) % people_.size()];
    label(image) = target;
  }

  void copy() {
    std::int64_t number = 0;
    for (const std::int64_t source : some_images(kCopy)) {
      if (planted_.labels.test(label(source))) continue;
      const std::uint64_t random = word(kDirection, source);
      const std::int64_t added = planted_.labels.images();
      planted_.labels.copies.push_back(
          {.source = source,
           .cosine = 0.98 + 0.02 * double{uniform01(static_cast<std::uint32_t>(random))},
           .seed = random});
      planted_.labels.of_image.push_back(label(source));
      planted_.person.push_back(planted_.person[at(source)]);
      planted_.errors.push_back({.kind = ErrorKind::kCopied,
                                 .image = added,
                                 .small = small(planted_.person[at(source)])});
      // Not recorded as flipped: the copied image makes such a label easier to find than others.
      if (++number % 4 == 0) give_other_label(added);
    }
  }

  const std::uint64_t seed_;
  const IdentityMembers members_;     // before
  std::vector<bool> unchanged_;       // [images]: trusted, and not flipped
  std::vector<std::int64_t> people_;  // trusted identities that are not in the test set
  std::vector<std::int64_t> images_;  // trusted images of these
  std::vector<std::int64_t> order_;   // people_ in random order
  std::size_t next_ = 0;              // in order_
  PlantedErrors planted_;
};

/// Decides whether findings are right.
class Judge {
 public:
  explicit Judge(const PlantedErrors& planted) : planted_(planted), members_(planted.labels) {
    for (std::int64_t i = 0; i < planted.labels.identities(); ++i) {
      owners_.push_back(person_of_most(members_.of(i)));
    }
    for (std::size_t i = 0; i < planted.errors.size(); ++i) {
      const PlantedError& e = planted.errors[i];
      errors_.emplace(std::pair(e.kind, std::max(e.image, e.identity)), i);
    }
  }

  /// Sets JudgedFinding::right and error. Returns false if the finding is left out.
  bool judge(JudgedFinding& judged) const {
    const auto [kind, place, right] = verdict(judged.finding);
    const auto error = errors_.find({kind, place});
    if (right ? error == errors_.end() : !trusted(judged.finding)) return false;
    judged.right = right;
    if (right) judged.error = error->second;
    return true;
  }

  /// Removes wrong findings that give images of one person the same other label. Noise of
  /// the embeddings would give different labels, so the person is really split.
  void remove_exposed_splits(std::vector<JudgedFinding>& judged) const {
    const auto label_given = [&](const JudgedFinding& j) {
      return std::pair(person(j.finding.image), j.finding.other_identity);
    };
    const auto wrong = [](const JudgedFinding& j) {
      return !j.right && j.finding.kind == FindingKind::kWrongLabel;
    };
    std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
    for (const JudgedFinding& j : judged) {
      if (wrong(j)) ++counts[label_given(j)];
    }
    std::erase_if(judged, [&](const auto& j) { return wrong(j) && counts[label_given(j)] > 1; });
  }

 private:
  struct Verdict {
    ErrorKind kind = ErrorKind::kFlipped;  ///< that the finding reports
    std::int64_t place = -1;               ///< PlantedError::image or identity
    bool right = false;
  };
  [[nodiscard]] Verdict verdict(const Finding& f) const {
    const std::int64_t owner = owners_[at(f.identity)];
    const std::int64_t other = f.other_identity < 0 ? -1 : owners_[at(f.other_identity)];
    switch (f.kind) {
      case FindingKind::kWrongLabel:
        return {ErrorKind::kFlipped, f.image,
                other == person(f.image) || planted_.home[at(person(f.image))] == f.other_identity};
      case FindingKind::kStranger:
        return {ErrorKind::kFlipped, f.image, person(f.image) != owner};
      case FindingKind::kSamePerson:
      case FindingKind::kLeaked:
        return {f.kind == FindingKind::kLeaked ? ErrorKind::kLeaked : ErrorKind::kSplit,
                std::max(f.identity, f.other_identity), owner == other};
      case FindingKind::kTwoPeople:
        return {ErrorKind::kMerged, f.identity, is_second_person(f)};
      case FindingKind::kDuplicate:
        return {ErrorKind::kCopied, std::max(f.image, f.other_image),
                source(f.image) == source(f.other_image)};
    }
    return {};
  }
  /// Returns whether all images and people of the finding are trusted.
  [[nodiscard]] bool trusted(const Finding& f) const {
    const auto image = [&](std::int64_t i) {
      return i < 0 || planted_.trusted_images[at(source(i))];
    };
    const auto people = [&](std::int64_t i) {
      return i < 0 || planted_.trusted_people[at(owners_[at(i)])];
    };
    return image(f.image) && image(f.other_image) && std::ranges::all_of(f.images, image) &&
           people(f.identity) && people(f.other_identity);
  }

  [[nodiscard]] std::int64_t person(std::int64_t image) const { return planted_.person[at(image)]; }
  [[nodiscard]] std::int64_t source(std::int64_t image) const {
    return planted_.labels.source(image);
  }
  /// Returns whether most of the images show another person than most of the identity's others.
  [[nodiscard]] bool is_second_person(const Finding& f) const {
    std::vector<std::int64_t> others;
    std::ranges::set_difference(members_.of(f.identity), f.images, std::back_inserter(others));
    return person_of_most(f.images) != person_of_most(others);
  }
  [[nodiscard]] std::int64_t person_of_most(std::span<const std::int64_t> images) const {
    std::map<std::int64_t, std::size_t> counts;
    for (const std::int64_t image : images) ++counts[person(image)];
    const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
    return most == counts.end() ? -1 : most->first;
  }

  const PlantedErrors& planted_;
  const IdentityMembers members_;
  std::vector<std::int64_t> owners_;  // [identities]: person of most images; -1: no images
  std::map<std::pair<ErrorKind, std::int64_t>, std::size_t> errors_;
};

}  // namespace

PlantedErrors plant_errors(const ImageLabels& labels, const FoundErrors& found,
                           std::uint64_t seed) {
  return Planter(labels, found, seed).plant();
}

std::vector<JudgedFinding> judge(const PlantedErrors& planted, std::vector<Finding> findings) {
  const Judge judge(planted);
  std::vector<JudgedFinding> judged;
  for (Finding& f : findings) {
    JudgedFinding one{.finding = std::move(f)};
    if (judge.judge(one)) judged.push_back(std::move(one));
  }
  judge.remove_exposed_splits(judged);
  return judged;
}

}  // namespace pfc
