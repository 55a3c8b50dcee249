#include "pfcctl/data/apply/resolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace pfc::testing {
namespace {

using Labels = std::vector<std::int64_t>;
using ::testing::ElementsAre;
using enum CorrectionKind;

Correction move(std::int64_t image, std::int64_t to) {
  return {.kind = kMove, .image = image, .other_identity = to};
}
Correction drop(std::int64_t image) { return {.kind = kDrop, .image = image}; }
Correction duplicate(std::int64_t image, std::int64_t keep) {
  return {.kind = kDropDuplicate, .image = image, .other_image = keep};
}
Correction leaked(std::int64_t identity) { return {.kind = kDropIdentity, .identity = identity}; }
Correction merge(std::int64_t a, std::int64_t b) {
  return {.kind = kMerge, .identity = a, .other_identity = b};
}
Correction split(Labels images) { return {.kind = kSplit, .images = std::move(images)}; }

/// Returns the label that the overlay gives each image; -1: left out.
Labels applied(const Overlay& overlay, const Labels& before) {
  Labels labels;
  for (std::int64_t i = 0; i < std::ssize(before); ++i) {
    const std::int64_t label = before[static_cast<std::size_t>(i)];
    const LabelChange* change = find_change(overlay.of_images, i);
    if (change == nullptr) change = find_change(overlay.of_identities, label);
    labels.push_back(change == nullptr ? label : change->label);
  }
  return labels;
}

/// Labels of seven images.
const Labels kBefore{0, 0, 0, 1, 1, 2, 3};

TEST(Resolve, GivesFinalLabels) {
  struct Case {
    std::vector<Correction> corrections;
    Labels labels;
    std::int64_t conflicts = 0, kept = 0;
  };
  const std::vector<Case> cases{{{move(0, 3), drop(5)}, {3, 0, 0, 1, 1, -1, 3}},
                                {{move(0, 3), drop(0)}, {3, 0, 0, 1, 1, 2, 3}, 1},
                                {{merge(2, 1), move(6, 2)}, {0, 0, 0, 1, 1, 1, 1}},
                                {{merge(3, 2)}, {0, 0, 0, 1, 1, 2, 2}},
                                {{merge(3, 2), merge(2, 1), merge(1, 0)}, {0, 0, 0, 0, 0, 0, 0}},
                                {{split({3}), split({0, 1})}, {5, 5, 0, 4, 1, 2, 3}},
                                {{drop(3), split({3}), split({4})}, {0, 0, 0, -1, 4, 2, 3}, 1},
                                {{leaked(0), move(1, 2)}, {-1, 2, -1, 1, 1, 2, 3}},
                                {{leaked(0), merge(3, 0), move(5, 3)}, {-1, -1, -1, 1, 1, -1, -1}},
                                {{duplicate(1, 0)}, {0, -1, 0, 1, 1, 2, 3}},
                                {{duplicate(1, -1)}, {0, -1, 0, 1, 1, 2, 3}},
                                {{duplicate(1, 0), drop(0)}, {-1, 0, 0, 1, 1, 2, 3}, 0, 1},
                                {{duplicate(3, 0), leaked(0)}, {-1, -1, -1, 1, 1, 2, 3}, 0, 1},
                                {{duplicate(1, 0), duplicate(0, 1)}, {0, -1, 0, 1, 1, 2, 3}, 0, 1},
                                {{duplicate(2, 1), duplicate(1, 0)}, {0, 0, -1, 1, 1, 2, 3}, 0, 1},
                                {{move(1, 3), duplicate(1, 0)}, {0, 3, 0, 1, 1, 2, 3}, 1}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Resolution done = resolve(cases[i].corrections, kBefore, 4);
    EXPECT_EQ(applied(done.overlay, kBefore), cases[i].labels) << "case " << i;
    EXPECT_EQ(done.conflicts, cases[i].conflicts) << "case " << i;
    EXPECT_EQ(done.kept_duplicates, cases[i].kept) << "case " << i;
  }
}

TEST(Resolve, CountsWhatChanges) {
  const std::vector<Correction> corrections{move(0, 1), drop(1), merge(2, 3), split({4}),
                                            duplicate(6, 5)};
  const Resolution done = resolve(corrections, kBefore, 4);
  EXPECT_EQ(done.moved, 1);
  EXPECT_EQ(done.left_out, 2);
  EXPECT_EQ(done.merged, 1);
  EXPECT_EQ(done.split, 1);
  EXPECT_EQ(done.overlay.images, 7);
  EXPECT_EQ(done.overlay.identities, 4);
}

TEST(Resolve, ListsIdentitiesWithoutImages) {
  const auto identities = [](const std::vector<Correction>& corrections, const Labels& labels) {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (const LabelChange& c : resolve(corrections, labels, 4).overlay.of_identities) {
      all.emplace_back(c.of, c.label);
    }
    return all;
  };
  using ::testing::Pair;
  EXPECT_THAT(identities({move(5, 0)}, kBefore), ElementsAre(Pair(2, -1)));
  EXPECT_THAT(identities({leaked(1)}, kBefore), ElementsAre(Pair(1, -1)));
  EXPECT_THAT(identities({move(5, 0), move(6, 0), merge(2, 3)}, kBefore),
              ElementsAre(Pair(2, -1), Pair(3, -1)));
  EXPECT_THAT(identities({move(5, 3), move(6, 2)}, kBefore), ElementsAre());
  EXPECT_THAT(identities({drop(0)}, {0, 1, 3, 3}), ElementsAre(Pair(0, -1), Pair(2, -1)));
  EXPECT_THAT(identities({drop(1)}, {-1, 0, 0, 1, 2, 3}), ElementsAre())
      << "the label of an image that cannot be read is not known";
}

/// Resolves by repeated passes over all corrections and images.
class ReferenceResolution {
 public:
  ReferenceResolution(const std::vector<Correction>& all, const Labels& before,
                      std::int64_t identities)
      : all_(all), before_(before), identities_(identities) {
    for (std::int64_t i = 0; i < identities; ++i) person_[i] = {i};
    for (const Correction& c : all) {
      if (c.kind != kMerge || person_[c.identity].contains(c.other_identity)) continue;
      std::set<std::int64_t> both = person_[c.identity];
      both.merge(std::set(person_[c.other_identity]));
      for (const std::int64_t i : both) person_[i] = both;
    }
    std::set<std::int64_t> skipped;  // duplicates that stay, by line
    for (std::size_t line = 0; line < all.size(); ++line) {
      if (all[line].kind == kDropDuplicate) skipped.insert(static_cast<std::int64_t>(line));
    }
    const Labels without = labels(skipped);
    for (std::size_t line = 0; line < all.size(); ++line) {
      const Correction& c = all[line];
      if (c.kind != kDropDuplicate) continue;
      const auto at = [](std::int64_t image) { return static_cast<std::size_t>(image); };
      const Labels now = labels(skipped);
      const bool keeps = without[at(c.other_image)] >= 0 && now[at(c.other_image)] >= 0;
      if (!keeps || needed_.contains(c.image)) continue;
      if (decider(c.image, static_cast<std::int64_t>(line), skipped) >= 0) continue;
      skipped.erase(static_cast<std::int64_t>(line));
      needed_.insert(c.other_image);
    }
    result_ = labels(skipped);
  }
  [[nodiscard]] const Labels& result() const { return result_; }
  [[nodiscard]] const std::set<std::int64_t>& needed() const { return needed_; }

 private:
  /// Returns the first line before `end` that is about this image; -1: none.
  [[nodiscard]] std::int64_t decider(std::int64_t image, std::int64_t end,
                                     const std::set<std::int64_t>& skipped) const {
    for (std::int64_t line = 0; line < end; ++line) {
      const Correction& c = all_[static_cast<std::size_t>(line)];
      if (!skipped.contains(line) &&
          (c.image == image || std::ranges::count(c.images, image) > 0)) {
        return line;
      }
    }
    return -1;
  }
  [[nodiscard]] std::int64_t fate(std::int64_t label) const {
    if (label < 0 || label >= identities_) return label;
    std::int64_t best = label;
    for (const std::int64_t i : person_.at(label)) {
      for (const Correction& c : all_) {
        if (c.kind == kDropIdentity && c.identity == i) return -1;
      }
      const auto images = std::ranges::count(before_, i), most = std::ranges::count(before_, best);
      if (images > most || (images == most && i < best)) best = i;
    }
    return best;
  }
  [[nodiscard]] Labels labels(const std::set<std::int64_t>& skipped) const {
    const auto end = std::ssize(all_);
    std::set<std::int64_t> splits;
    for (std::int64_t i = 0; i < std::ssize(before_); ++i) {
      const std::int64_t line = decider(i, end, skipped);
      if (line >= 0 && all_[static_cast<std::size_t>(line)].kind == kSplit) splits.insert(line);
    }
    Labels labels;
    for (std::int64_t i = 0; i < std::ssize(before_); ++i) {
      const std::int64_t line = decider(i, end, skipped);
      if (line < 0) {
        labels.push_back(fate(before_[static_cast<std::size_t>(i)]));
      } else if (all_[static_cast<std::size_t>(line)].kind == kSplit) {
        labels.push_back(identities_ + std::distance(splits.begin(), splits.find(line)));
      } else {
        labels.push_back(fate(all_[static_cast<std::size_t>(line)].other_identity));
      }
    }
    return labels;
  }

  const std::vector<Correction>& all_;
  const Labels& before_;
  const std::int64_t identities_;
  std::map<std::int64_t, std::set<std::int64_t>> person_;
  std::set<std::int64_t> needed_;  // images of which a duplicate is left out
  Labels result_;
};

TEST(Resolve, AgreesWithASimpleReference) {
  std::mt19937 random(11);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t images = 1 + below(12), identities = 1 + below(6);
    Labels before;
    for (std::int64_t i = 0; i < images; ++i) before.push_back(below(identities));
    std::vector<Correction> all;
    for (std::int64_t n = below(12); n > 0; --n) {
      switch (below(6)) {
        case 0:
          all.push_back(move(below(images), below(identities)));
          break;
        case 1:
          all.push_back(drop(below(images)));
          break;
        case 2:
          all.push_back(leaked(below(identities)));
          break;
        case 3:
          all.push_back(merge(below(identities), below(identities)));
          break;
        case 4:
          all.push_back(split({below(images), below(images)}));
          break;
        default:
          all.push_back(duplicate(below(images), below(images)));
      }
      // An image is never a duplicate of itself.
      if (all.back().image >= 0 && all.back().image == all.back().other_image) all.pop_back();
    }
    const ReferenceResolution reference(all, before, identities);
    const Overlay overlay = resolve(all, before, identities).overlay;
    ASSERT_EQ(applied(overlay, before), reference.result()) << "round " << round;
    for (const std::int64_t image : reference.needed()) {
      ASSERT_GE(reference.result()[static_cast<std::size_t>(image)], 0) << "a copy is lost";
    }
    for (const auto* changes : {&overlay.of_identities, &overlay.of_images}) {
      for (const LabelChange& c : *changes) {
        ASSERT_EQ(find_change(overlay.of_identities, c.label), nullptr) << "round " << round;
      }
    }
    for (std::int64_t c = 0; c < identities; ++c) {
      const bool remains = std::ranges::count(reference.result(), c) > 0;
      ASSERT_EQ(find_change(overlay.of_identities, c) == nullptr, remains) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace pfc::testing
