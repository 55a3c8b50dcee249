#include "pfcctl/data/apply/resolution.h"

#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pfc {

namespace {

constexpr std::int64_t kLeftOut = -1;

/// Which identities are one person, and which are dropped.
class MergedIdentities {
 public:
  MergedIdentities(std::span<const Correction> corrections, std::span<const std::int64_t> labels,
                   std::int64_t identities)
      : images_(static_cast<std::size_t>(identities)) {
    for (const std::int64_t label : labels) {
      if (label >= 0) ++images_[static_cast<std::size_t>(label)];
    }
    for (std::int64_t i = 0; i < identities; ++i) merged_into_.push_back(i);
    for (const Correction& c : corrections) {
      if (c.kind == CorrectionKind::kMerge) merge(c.identity, c.other_identity);
    }
    for (std::int64_t& label : merged_into_) label = root(label);
    for (const Correction& c : corrections) {
      if (c.kind == CorrectionKind::kDropIdentity) dropped_.insert(kept(c.identity));
    }
  }

  [[nodiscard]] std::int64_t identities() const { return std::ssize(merged_into_); }
  /// Returns the label that all identities of this person get.
  [[nodiscard]] std::int64_t kept(std::int64_t label) const {
    return merged_into_[static_cast<std::size_t>(label)];
  }
  /// Returns the final label of an image that has this one; labels of new identities are final.
  [[nodiscard]] std::int64_t final_label(std::int64_t label) const {
    if (label < 0 || label >= identities()) return label;
    const std::int64_t person = kept(label);
    return dropped_.contains(person) ? kLeftOut : person;
  }

 private:
  void merge(std::int64_t a, std::int64_t b) {
    const auto rank = [&](std::int64_t label) {
      return std::tuple(-images_[static_cast<std::size_t>(label)], label);
    };
    a = root(a);
    b = root(b);
    if (rank(b) < rank(a)) std::swap(a, b);
    merged_into_[static_cast<std::size_t>(b)] = a;
  }

  /// Returns the end of the chain of merges, and halves the chain.
  std::int64_t root(std::int64_t label) {
    const auto next = [&](std::int64_t of) -> std::int64_t& {
      return merged_into_[static_cast<std::size_t>(of)];
    };
    while (next(label) != label) label = next(label) = next(next(label));
    return label;
  }

  std::vector<std::int64_t> images_;       ///< of each identity, before the corrections
  std::vector<std::int64_t> merged_into_;  ///< by label; itself: not merged
  std::unordered_set<std::int64_t> dropped_;
};

/// What the corrections say about single images.
class Claims {
 public:
  Claims(const MergedIdentities& people, std::span<const std::int64_t> labels)
      : people_(people), labels_(labels), next_new_(people.identities()) {}

  /// Applies duplicates by the final labels in `others`; nullptr: skips duplicates.
  void apply(std::span<const Correction> corrections, const Claims* others) {
    for (const Correction& c : corrections) {
      if (c.kind == CorrectionKind::kMove) claim(c.image, c.other_identity);
      if (c.kind == CorrectionKind::kDrop) claim(c.image, kLeftOut);
      if (c.kind == CorrectionKind::kSplit) split(c.images);
      if (c.kind == CorrectionKind::kDropDuplicate && others != nullptr) {
        drop_duplicate(c, *others);
      }
    }
  }

  [[nodiscard]] std::int64_t final_label(std::int64_t image) const {
    const auto claimed = claimed_.find(image);
    return people_.final_label(
        claimed != claimed_.end() ? claimed->second : labels_[static_cast<std::size_t>(image)]);
  }
  [[nodiscard]] std::int64_t conflicts() const { return conflicts_; }
  [[nodiscard]] std::int64_t kept_duplicates() const { return kept_duplicates_; }
  [[nodiscard]] std::int64_t split_identities() const { return next_new_ - people_.identities(); }

 private:
  bool claim(std::int64_t image, std::int64_t label) {
    const bool first = claimed_.try_emplace(image, label).second;
    conflicts_ += first ? 0 : 1;
    return first;
  }

  void split(std::span<const std::int64_t> images) {
    bool any = false;
    for (const std::int64_t image : images) any = claim(image, next_new_) || any;
    next_new_ += any ? 1 : 0;
  }

  void drop_duplicate(const Correction& c, const Claims& others) {
    const auto claimed = claimed_.find(c.other_image);
    const bool left_out = claimed != claimed_.end() && claimed->second == kLeftOut;
    const bool stays =
        c.other_image < 0 || (!left_out && others.final_label(c.other_image) != kLeftOut);
    if (!stays || needed_.contains(c.image)) {
      ++kept_duplicates_;
    } else if (claim(c.image, kLeftOut)) {
      needed_.insert(c.other_image);
    }
  }

  const MergedIdentities& people_;
  const std::span<const std::int64_t> labels_;
  std::unordered_map<std::int64_t, std::int64_t> claimed_;  ///< label by image
  std::unordered_set<std::int64_t> needed_;  ///< images of which a duplicate is left out
  std::int64_t next_new_;
  std::int64_t conflicts_ = 0, kept_duplicates_ = 0;
};

}  // namespace

Resolution resolve(std::span<const Correction> corrections, std::span<const std::int64_t> labels,
                   std::int64_t identities) {
  const MergedIdentities people(corrections, labels, identities);
  Claims others(people, labels), claims(people, labels);
  others.apply(corrections, nullptr);
  claims.apply(corrections, &others);

  Resolution done{.overlay = {.images = std::ssize(labels), .identities = identities},
                  .split = claims.split_identities(),
                  .conflicts = claims.conflicts(),
                  .kept_duplicates = claims.kept_duplicates()};
  std::vector<bool> has_images(static_cast<std::size_t>(identities));
  for (std::int64_t image = 0; image < std::ssize(labels); ++image) {
    const std::int64_t label = labels[static_cast<std::size_t>(image)];
    if (label < 0) continue;
    const std::int64_t final_label = claims.final_label(image);
    if (final_label >= 0 && final_label < identities) {
      has_images[static_cast<std::size_t>(final_label)] = true;
    }
    if (final_label >= 0 && final_label == people.final_label(label)) continue;
    done.overlay.of_images.push_back({.of = image, .label = final_label});
    if (final_label < 0) ++done.left_out;
    if (final_label >= 0 && final_label < identities) ++done.moved;
  }
  for (std::int64_t label = 0; label < identities; ++label) {
    const std::int64_t kept = people.kept(label);
    const bool remains = has_images[static_cast<std::size_t>(kept)];
    if (remains && kept == label) continue;
    done.overlay.of_identities.push_back({.of = label, .label = remains ? kept : -1});
    if (remains) ++done.merged;
  }
  return done;
}

}  // namespace pfc
