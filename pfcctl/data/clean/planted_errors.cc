#include "pfcctl/data/clean/planted_errors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/math/philox.h"

namespace pfc {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Planter {
 public:
  Planter(const ImageLabels& labels, const std::vector<Finding>& found, std::uint64_t seed)
      : seed_(seed), members_(labels), trusted_(labels.of_image.size(), true) {
    std::vector<bool> trusted_people(labels.is_test.size(), true);
    for (const Finding& f : found) {
      for (const std::int64_t image : f.images) trusted_[at(image)] = false;
      if (f.image >= 0) {
        trusted_[at(f.image)] = false;
      } else {
        trusted_people[at(f.identity)] = false;
        if (f.other_identity >= 0) trusted_people[at(f.other_identity)] = false;
      }
    }
    planted_.labels = labels;
    planted_.person = labels.of_image;
    for (std::int64_t i = 0; i < labels.identities(); ++i) {
      planted_.home.push_back(i);
      if (labels.test(i) || !trusted_people[at(i)] || members_.of(i).empty()) continue;
      people_.push_back(i);
      std::ranges::copy_if(members_.of(i), std::back_inserter(images_),
                           [&](std::int64_t image) { return trusted_[at(image)]; });
    }
  }

  PlantedErrors plant() {
    if (people_.size() < 2) return std::move(planted_);
    const bool has_test = std::ranges::count(planted_.labels.is_test, true) > 0;
    order_ = shuffled(kOrder, people_);
    const std::int64_t some = number_of(people_);
    for (std::int64_t n = 0; n < some; ++n) halve(ErrorKind::kSplit);
    for (std::int64_t n = 0; n < some && has_test; ++n) halve(ErrorKind::kLeaked);
    for (std::int64_t n = 0; n < some; ++n) merge();
    for (std::int64_t n = 0; n < (some + 9) / 10; ++n) {
      for (const std::int64_t image : members_.of(next_person(1))) {
        if (trusted_[at(image)]) flip(image);
      }
    }
    for (const std::int64_t image : some_images(kFlip)) {
      if (trusted_[at(image)] && !planted_.labels.test(label(image))) flip(image);
    }
    copy();
    return std::move(planted_);
  }

 private:
  // Purposes of random numbers. Shuffles and draws of pairs use the first ones of kShuffle.
  enum Purpose : std::uint32_t { kOrder = 16, kFlip, kTarget, kCopy, kDirection, kHalf };

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

  /// Returns a person who was not changed and has this many images. With the numbers of plant(), at
  /// least half of the people are not changed; the last one stands for those that do not exist.
  std::int64_t next_person(std::size_t images) {
    while (next_ + 1 < order_.size() && members_.of(order_[next_]).size() < images) ++next_;
    const std::int64_t person = order_[next_];
    if (next_ + 1 < order_.size()) ++next_;
    return person;
  }

  /// Moves half of the images of a person to a new identity.
  void halve(ErrorKind kind) {
    const std::int64_t person = next_person(2);
    const auto images = members_.of(person);
    if (images.size() < 2) return;
    const std::int64_t added = planted_.labels.identities();
    planted_.labels.is_test.push_back(kind == ErrorKind::kLeaked);
    const auto order = shuffled(kHalf, {images.begin(), images.end()});
    for (std::size_t k = 0; k < order.size() / 2; ++k) label(order[k]) = added;
    planted_.errors.push_back({.kind = kind, .identity = added, .small = small(person)});
  }

  void merge() {
    const std::int64_t one = next_person(1), two = next_person(1);
    if (one == two) return;
    for (const std::int64_t image : members_.of(two)) label(image) = one;
    planted_.home[at(two)] = one;
    planted_.errors.push_back(
        {.kind = ErrorKind::kMerged, .identity = one, .small = small(one) || small(two)});
  }

  void flip(std::int64_t image) {
    give_other_label(image);
    trusted_[at(image)] = false;
    planted_.errors.push_back(
        {.kind = ErrorKind::kFlipped, .image = image, .small = small(label(image))});
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
      // Such a label is easier to find than others, because the image has a copy where it belongs.
      if (++number % 4 == 0) give_other_label(added);
    }
  }

  const std::uint64_t seed_;
  const IdentityMembers members_;     // before
  std::vector<bool> trusted_;         // [images]: nothing was found, and it was not flipped
  std::vector<std::int64_t> people_;  // identities of which nothing was found, not in the test set
  std::vector<std::int64_t> images_;  // of these
  std::vector<std::int64_t> order_;   // people_ in random order
  std::size_t next_ = 0;              // in order_
  PlantedErrors planted_;
};

/// Decides whether findings are right.
class PlantedTruth {
 public:
  static constexpr std::int64_t kNotPlanted = -1;

  explicit PlantedTruth(const PlantedErrors& planted)
      : planted_(planted), members_(planted.labels) {
    for (std::int64_t i = 0; i < planted.labels.identities(); ++i) {
      owners_.push_back(person_of_most(members_.of(i)));
    }
    for (std::size_t i = 0; i < planted.errors.size(); ++i) {
      const PlantedError& e = planted.errors[i];
      places_.emplace(std::pair(e.kind, std::max(e.image, e.identity)), i);
    }
  }

  /// Returns the index of the planted error that the finding is right about; kNotPlanted if it is
  /// right about something else; nothing if it is wrong.
  [[nodiscard]] std::optional<std::int64_t> error_of(const Finding& f) const {
    const auto if_right = [&](bool right, ErrorKind kind, std::int64_t image_or_identity) {
      return right ? std::optional(place(kind, image_or_identity)) : std::nullopt;
    };
    const std::int64_t owner = owners_[at(f.identity)];
    switch (f.kind) {
      case FindingKind::kWrongLabel:
        return if_right(belongs_to(person(f.image), f.other_identity), ErrorKind::kFlipped,
                        f.image);
      case FindingKind::kStranger:
        return if_right(person(f.image) != owner, ErrorKind::kFlipped, f.image);
      case FindingKind::kSamePerson:
      case FindingKind::kLeaked:
        return if_right(owner == owners_[at(f.other_identity)],
                        f.kind == FindingKind::kLeaked ? ErrorKind::kLeaked : ErrorKind::kSplit,
                        std::max(f.identity, f.other_identity));
      case FindingKind::kTwoPeople:
        return if_right(is_second_person(f), ErrorKind::kMerged, f.identity);
      case FindingKind::kDuplicate:
        return if_right(source(f.image) == source(f.other_image), ErrorKind::kCopied,
                        std::max(f.image, f.other_image));
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::int64_t place(ErrorKind kind, std::int64_t image_or_identity) const {
    const auto found = places_.find(std::pair(kind, image_or_identity));
    return found == places_.end() ? kNotPlanted : static_cast<std::int64_t>(found->second);
  }
  [[nodiscard]] std::int64_t person(std::int64_t image) const { return planted_.person[at(image)]; }
  [[nodiscard]] bool belongs_to(std::int64_t person, std::int64_t identity) const {
    return owners_[at(identity)] == person || planted_.home[at(person)] == identity;
  }
  [[nodiscard]] std::int64_t source(std::int64_t image) const {
    const std::int64_t stored = planted_.labels.images() - std::ssize(planted_.labels.copies);
    return image < stored ? image : planted_.labels.copies[at(image - stored)].source;
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
  std::vector<std::int64_t> owners_;  // [identities]: person of most images
  std::map<std::pair<ErrorKind, std::int64_t>, std::size_t> places_;
};

/// Whether a finding is about a duplicate, its image, and its identities.
using Subject = std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>;

Subject subject_of(const Finding& f) {
  const bool duplicate = f.kind == FindingKind::kDuplicate;
  return f.image >= 0 ? Subject{duplicate, f.image, -1, -1}
                      : Subject{duplicate, -1, f.identity, f.other_identity};
}

}  // namespace

PlantedErrors plant_errors(const ImageLabels& labels, const std::vector<Finding>& found,
                           std::uint64_t seed) {
  return Planter(labels, found, seed).plant();
}

PlantedFindings::PlantedFindings(const PlantedErrors& planted, const std::vector<Finding>& before,
                                 const std::vector<Finding>& found)
    : planted_(planted) {
  const PlantedTruth truth(planted);
  std::set<Subject> known;
  for (const Finding& f : before) {
    known.insert(subject_of(f));
    for (const std::int64_t image : f.images) known.insert({false, image, -1, -1});
  }
  for (const Finding& f : found) {
    const std::optional<std::int64_t> error = truth.error_of(f);
    if (!error && !known.contains(subject_of(f))) wrong_.push_back(f);
    if (!error || *error == PlantedTruth::kNotPlanted) continue;
    right_.push_back(f);
    errors_.push_back(static_cast<std::size_t>(*error));
  }
}

PlantedRecalls PlantedFindings::counted(const std::vector<bool>& found) const {
  PlantedRecalls recalls{};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const PlantedError& e = planted_.errors[i];
    PlantedRecall& of = recalls[static_cast<std::size_t>(e.kind)][e.small ? 1 : 0];
    ++of.planted;
    of.found += found[i] ? 1 : 0;
  }
  return recalls;
}

}  // namespace pfc
