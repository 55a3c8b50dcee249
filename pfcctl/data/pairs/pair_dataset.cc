#include "pfcctl/data/pairs/pair_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "data/layouts/layout.h"

namespace pfc {

namespace {

/// Groups of images of one person (union-find).
class PeopleOfPairs {
 public:
  explicit PeopleOfPairs(std::size_t images) {
    while (first_.size() < images) first_.push_back(first_.size());
  }
  void join(std::size_t a, std::size_t b) { first_[find(a)] = find(b); }
  /// Returns the label of each image. Labels are numbered by the first image of a person.
  std::vector<std::int64_t> labels() {
    std::vector<std::int64_t> labels;
    std::map<std::size_t, std::int64_t> numbers;  // by group
    for (std::size_t i = 0; i < first_.size(); ++i) {
      labels.push_back(numbers.emplace(find(i), std::ssize(numbers)).first->second);
    }
    return labels;
  }

 private:
  std::size_t find(std::size_t image) {
    while (first_[image] != image) image = first_[image] = first_[first_[image]];
    return image;
  }
  std::vector<std::size_t> first_;  // another image of the group, or the image itself
};

std::vector<std::int64_t> labels_of_pairs(const VerificationSet& set) {
  PeopleOfPairs people(set.images.size());
  for (std::size_t pair = 0; pair < set.same.size(); ++pair) {
    if (set.same[pair]) people.join(2 * pair, 2 * pair + 1);
  }
  std::unordered_map<std::string_view, std::size_t> known;  // by bytes
  for (std::size_t i = 0; i < set.images.size(); ++i) {
    const auto& bytes = set.images[i];
    if (bytes.empty()) continue;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    people.join(known.emplace(text, i).first->second, i);
  }
  return people.labels();
}

class PairDataset final : public Dataset {
 public:
  explicit PairDataset(VerificationSet set) : set_(std::move(set)), labels_(labels_of_pairs(set_)) {
    info_.layout = "verification set";
    info_.images = std::ssize(labels_);
    for (const std::int64_t label : labels_) info_.classes = std::max(info_.classes, label + 1);
  }

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t) const override { return {}; }
  Sample parse(std::int64_t image, StoredImage&) const override {
    const auto i = static_cast<std::size_t>(image);
    return {.encoded = set_.images[i], .label = labels_[i]};
  }
  std::int64_t label(std::int64_t image, ImageBuffer&) const override {
    return labels_[static_cast<std::size_t>(image)];
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return fmt::format("{}: pair {}, image {}", set_.file.string(), image / 2 + 1, image % 2 + 1);
  }
  [[nodiscard]] std::string identity(std::int64_t) const override { return {}; }
  [[nodiscard]] std::vector<FileBrief> briefs() const override {
    return {{set_.file, counted(std::ssize(set_.same), "pair")}};
  }

 private:
  VerificationSet set_;
  std::vector<std::int64_t> labels_;
  DatasetInfo info_;
};

}  // namespace

std::unique_ptr<Dataset> dataset_of_pairs(VerificationSet set) {
  return std::make_unique<PairDataset>(std::move(set));
}

std::unique_ptr<Dataset> open_pairs_or_dataset(const DatasetOptions& options) {
  if (lower_case_ending(options.rec) != ".bin") return open_dataset(options);
  return dataset_of_pairs(read_verification_bin(options.rec));
}

}  // namespace pfc
