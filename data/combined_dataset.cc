#include "data/combined_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/counted.h"
#include "common/error.h"

namespace pfc {

namespace {

/// One of the combined data sets.
struct Part {
  PartDataset given;
  std::int64_t first_image = 0;
  std::int64_t first_class = 0;
  std::vector<std::int64_t> classes;  ///< by label; empty: a label's class is first_class + label
};

std::int64_t class_of(const Part& part, std::int64_t label) {
  return part.classes.empty() ? part.first_class + label
                              : part.classes[static_cast<std::size_t>(label)];
}

class CombinedDataset final : public Dataset {
 public:
  CombinedDataset(std::vector<PartDataset> parts, SharedIdentities shared);

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const override {
    const Part& part = part_of(image);
    return part.given.dataset->extent(image - part.first_image);
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    const Part& part = part_of(image);
    Sample sample = part.given.dataset->parse(image - part.first_image, stored);
    sample.label = class_of(part, sample.label);
    sample.record = {};  // contains the label in its own data set
    return sample;
  }
  std::int64_t label(std::int64_t image, ImageBuffer& storage) const override {
    const Part& part = part_of(image);
    return class_of(part, part.given.dataset->label(image - part.first_image, storage));
  }
  void other_labels(std::int64_t image, std::span<std::int64_t> others) const override {
    const Part& part = part_of(image);
    const Dataset& own = *part.given.dataset;
    std::ranges::fill(others, std::int64_t{-1});
    others = others.first(static_cast<std::size_t>(own.info().labels_per_image - 1));
    own.other_labels(image - part.first_image, others);
    for (std::int64_t& label : others) {
      if (label >= 0) label = class_of(part, label);
    }
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    const Part& part = part_of(image);
    return part.given.dataset->name(image - part.first_image);
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override;
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  void share(Part& part);
  [[nodiscard]] const Part& part_of(std::int64_t image) const;
  void warn_of_strangers();

  std::vector<Part> parts_;
  IdentityNames names_;                                          ///< names of shared classes
  std::unordered_map<std::string, std::int64_t> class_of_name_;  ///< empty after construction
  DatasetInfo info_;
};

std::string content_of(const DatasetInfo& info) {
  return info.embedding_size == 0 ? "images"
                                  : fmt::format("embeddings of {} numbers", info.embedding_size);
}

/// Checks that both parts have images, or that both have embeddings of equal size, because
/// embeddings cannot be resized.
void expect_alike(const Part& first, const Part& other) {
  const Dataset &one = *first.given.dataset, &two = *other.given.dataset;
  if (one.info().embedding_size == two.info().embedding_size) return;
  throw InputError(fmt::format("{} has {}, but {} has {}: one job cannot train on both",
                               one.briefs().front().file.string(), content_of(one.info()),
                               two.briefs().front().file.string(), content_of(two.info())));
}

std::string identity_name(const PartDataset& part, std::int64_t label) {
  return part.names.size() > 0 ? part.names.at(label) : part.dataset->identity(label);
}

CombinedDataset::CombinedDataset(std::vector<PartDataset> parts, SharedIdentities shared) {
  check(!parts.empty(), "combine_datasets: no data sets");
  info_.height = parts.front().dataset->info().height;
  info_.width = parts.front().dataset->info().width;
  info_.embedding_size = parts.front().dataset->info().embedding_size;
  info_.layout = counted(static_cast<long long>(parts.size()), "data set");
  for (PartDataset& given : parts) {
    Part part{.given = std::move(given),
              .first_image = info_.images,
              .first_class = info_.classes,
              .classes = {}};
    const DatasetInfo& info = part.given.dataset->info();
    expect_alike(parts_.empty() ? part : parts_.front(), part);
    if (shared == SharedIdentities::kByName) {
      share(part);
    } else {
      info_.classes += info.classes;
    }
    if (info_.images_in_order == info_.images) {
      info_.images_in_order += info.images_in_order;
      info_.bytes_in_order += info.bytes_in_order;
    }
    info_.images += info.images;
    info_.labels_per_image = std::max(info_.labels_per_image, info.labels_per_image);
    info_.index_bytes +=
        info.index_bytes + part.given.names.bytes() + part.classes.size() * sizeof(std::int64_t);
    info_.part_images.push_back(info.images);
    info_.part_classes.push_back(info_.classes - part.first_class);
    info_.warnings.insert(info_.warnings.end(), info.warnings.begin(), info.warnings.end());
    parts_.push_back(std::move(part));
  }
  class_of_name_ = {};
  info_.index_bytes += names_.bytes();
  if (shared == SharedIdentities::kByName) warn_of_strangers();
}

/// Warns if the data sets have no person in common, because their names may follow different
/// conventions.
void CombinedDataset::warn_of_strangers() {
  std::int64_t of_parts = 0;
  for (const Part& part : parts_) of_parts += part.given.dataset->info().classes;
  if (of_parts > info_.classes || parts_.size() == 1) return;
  info_.warnings.push_back(
      "share_identities: no name is in more than one of the data sets: do the data sets use the "
      "same names?");
}

void CombinedDataset::share(Part& part) {
  const PartDataset& given = part.given;
  const std::int64_t classes = given.dataset->info().classes;
  for (std::int64_t label = 0; label < classes; ++label) {
    const std::string name = identity_name(given, label);
    if (name.empty()) {
      throw InputError(fmt::format(
          "share_identities: label {} of {} has no name; expected identities.txt beside the data, "
          "or the key identities with a file for each data set; line k, from 0, names label k",
          label, given.dataset->briefs().front().file.string()));
    }
    const auto [there, added] = class_of_name_.try_emplace(name, info_.classes);
    if (added) {
      names_.append(name);
      ++info_.classes;
    }
    part.classes.push_back(there->second);
  }
  std::vector<std::int64_t> sorted = part.classes;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return;
  throw InputError(fmt::format("share_identities: two labels of {} have the name '{}'",
                               given.dataset->briefs().front().file.string(), names_.at(*twice)));
}

std::string CombinedDataset::identity(std::int64_t label) const {
  if (names_.size() > 0) return names_.at(label);  // shared: a class may be in several parts
  const auto behind = std::ranges::upper_bound(parts_, label, {}, &Part::first_class);
  const Part& part = *std::prev(behind);
  return identity_name(part.given, label - part.first_class);
}

const Part& CombinedDataset::part_of(std::int64_t image) const {
  check(image >= 0 && image < info_.images, "Dataset: no such image");
  const auto behind = std::ranges::upper_bound(parts_, image, {}, &Part::first_image);
  return *std::prev(behind);
}

std::vector<FileBrief> CombinedDataset::briefs() const {
  std::vector<FileBrief> all;
  for (const Part& part : parts_) {
    const auto own = part.given.dataset->briefs();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace

std::unique_ptr<Dataset> combine_datasets(std::vector<PartDataset> parts, SharedIdentities shared) {
  return std::make_unique<CombinedDataset>(std::move(parts), shared);
}

}  // namespace pfc
