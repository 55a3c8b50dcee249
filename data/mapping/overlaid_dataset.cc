#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "common/error.h"
#include "data/mapping/mapped_dataset.h"
#include "data/mapping/overlay.h"

namespace pfc {

namespace {

/// Returns number `place` of the numbers 0, 1, 2 ... that are not in `removed` (ascending).
template <class Removed, class Number = std::identity>
std::int64_t kept_number(const Removed& removed, std::int64_t place, Number number = {}) {
  const auto all = std::views::iota(std::int64_t{0}, std::ssize(removed));
  const auto end = std::ranges::partition_point(all, [&](std::int64_t i) {
    return std::invoke(number, removed[static_cast<std::size_t>(i)]) - i <= place;
  });
  return place + (end - all.begin());
}

class OverlaidDataset final : public MappedDataset {
 public:
  OverlaidDataset(std::unique_ptr<Dataset> dataset, Overlay overlay);

  [[nodiscard]] std::string identity(std::int64_t label) const override {
    if (label < kept_identities()) {
      return whole_.identity(kept_number(overlay_.of_identities, label, &LabelChange::of));
    }
    if (whole_.identity(0).empty()) return {};
    const auto i = static_cast<std::size_t>(label - kept_identities());
    return fmt::format("new identity {} of {}", new_identities_.at(i), checksum_);
  }
  [[nodiscard]] std::vector<FileBrief> briefs() const override {
    std::vector<FileBrief> briefs = whole_.briefs();
    briefs.push_back(
        {overlay_.file, fmt::format("{} changed labels, sha256 {}", changes_, checksum_)});
    return briefs;
  }

 private:
  [[nodiscard]] std::int64_t original(std::int64_t image) const override {
    return kept_number(left_out_, image);
  }
  [[nodiscard]] std::int64_t new_label(std::int64_t at, std::int64_t label) const override;
  void expect_own_data() const;
  [[nodiscard]] std::int64_t kept_identities() const {
    return overlay_.identities - std::ssize(overlay_.of_identities);
  }
  [[nodiscard]] std::int64_t class_of(std::int64_t label) const;

  const std::unique_ptr<Dataset> dataset_;
  Overlay overlay_;  ///< without the images that are left out
  const std::string checksum_;
  const std::size_t changes_;
  std::vector<std::int64_t> left_out_;        ///< images, ascending
  std::vector<std::int64_t> new_identities_;  ///< labels in the overlay, ascending
};

OverlaidDataset::OverlaidDataset(std::unique_ptr<Dataset> dataset, Overlay overlay)
    : MappedDataset(*dataset),
      dataset_(std::move(dataset)),
      overlay_(std::move(overlay)),
      checksum_(overlay_checksum(overlay_)),
      changes_(overlay_.of_identities.size() + overlay_.of_images.size()) {
  expect_own_data();
  for (const LabelChange& change : overlay_.of_images) {
    if (change.label < 0) left_out_.push_back(change.of);
  }
  std::erase_if(overlay_.of_images, [](const LabelChange& change) { return change.label < 0; });
  for (const auto* changes : {&overlay_.of_identities, &overlay_.of_images}) {
    for (const LabelChange& change : *changes) {
      if (change.label >= overlay_.identities) new_identities_.push_back(change.label);
    }
  }
  std::ranges::sort(new_identities_);
  const auto rest = std::ranges::unique(new_identities_);
  new_identities_.erase(rest.begin(), rest.end());

  info_.layout += ", with an overlay";
  info_.images -= std::ssize(left_out_);
  info_.classes = kept_identities() + std::ssize(new_identities_);
  if (info_.images == 0 || info_.classes == 0) {
    throw InputError(overlay_.file.string() +
                     ": leaves out all images or all identities, expected some to remain");
  }
  if (const std::int64_t before = info_.images_in_order; before > 0) {
    const auto behind = std::ranges::lower_bound(left_out_, before);
    info_.images_in_order -= behind - left_out_.begin();
    // As if images that are left out had the mean size.
    info_.bytes_in_order = static_cast<std::uint64_t>(static_cast<double>(info_.bytes_in_order) /
                                                      static_cast<double>(before) *
                                                      static_cast<double>(info_.images_in_order));
  }
  info_.index_bytes += changes_ * sizeof(LabelChange) +
                       (left_out_.size() + new_identities_.size()) * sizeof(std::int64_t);
}

void OverlaidDataset::expect_own_data() const {
  expect_one_label(whole_, "an overlay");
  if (info_.images == overlay_.images && info_.classes == overlay_.identities) return;
  const auto counts = [](std::int64_t images, std::int64_t identities) {
    return fmt::format("{} of {} identities", counted(images, "image"), identities);
  };
  throw InputError(
      fmt::format("{}: line 1: belongs to {}, but {} has {}; make the overlay again for these data",
                  overlay_.file.string(), counts(overlay_.images, overlay_.identities),
                  whole_.briefs().front().file.string(), counts(info_.images, info_.classes)));
}

std::int64_t OverlaidDataset::new_label(std::int64_t at, std::int64_t label) const {
  if (const LabelChange* own = find_change(overlay_.of_images, at)) return class_of(own->label);
  const LabelChange* const change = find_change(overlay_.of_identities, label);
  if (change == nullptr) return class_of(label);
  if (change->label >= 0) return class_of(change->label);
  throw InputError(fmt::format(
      "{}: found label {}, but {} leaves no image of this identity; give the overlay of these "
      "data, or make it again",
      whole_.name(at), label, overlay_.file.string()));
}

/// Returns the class of a label of the overlay. REQUIRES: the overlay does not change this
/// identity.
std::int64_t OverlaidDataset::class_of(std::int64_t label) const {
  if (label >= overlay_.identities) {
    return kept_identities() +
           (std::ranges::lower_bound(new_identities_, label) - new_identities_.begin());
  }
  const auto behind = std::ranges::lower_bound(overlay_.of_identities, label, {}, &LabelChange::of);
  return label - (behind - overlay_.of_identities.begin());
}

}  // namespace

std::unique_ptr<Dataset> overlaid(std::unique_ptr<Dataset> dataset, Overlay overlay) {
  return std::make_unique<OverlaidDataset>(std::move(dataset), std::move(overlay));
}

}  // namespace pfc
