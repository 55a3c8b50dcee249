#include "data/mapping/chosen_dataset.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "data/mapping/mapped_dataset.h"

namespace pfc {

namespace {

class ChosenDataset final : public MappedDataset {
 public:
  ChosenDataset(const Dataset& whole, Choice choice)
      : MappedDataset(whole), choice_(std::move(choice)) {
    check(info_.labels_per_image == 1, "choose: the images must have one label");
    info_.layout = "a part of " + info_.layout;
    info_.images = std::ssize(choice_.images);
    if (!choice_.classes.empty()) info_.classes = std::ssize(choice_.classes);
    info_.part_classes = info_.part_images = {};
    info_.images_in_order = 0;
    info_.bytes_in_order = 0;
    info_.index_bytes += (choice_.images.size() + choice_.classes.size()) * sizeof(std::int64_t);
  }

  [[nodiscard]] std::string identity(std::int64_t label) const override {
    return whole_.identity(
        choice_.classes.empty() ? label : choice_.classes.at(static_cast<std::size_t>(label)));
  }
  [[nodiscard]] std::vector<FileBrief> briefs() const override {
    std::vector<FileBrief> briefs = whole_.briefs();
    Sha256 sum;
    sum.update(std::as_bytes(std::span(choice_.images)));
    sum.update(std::as_bytes(std::span(choice_.classes)));
    briefs.front().holds += "; of these " + counted(info_.images, "image") +
                            ", sha256 of their numbers " + sum.finish().substr(0, 16);
    return briefs;
  }

 private:
  [[nodiscard]] std::int64_t original(std::int64_t image) const override {
    return choice_.images.at(static_cast<std::size_t>(image));
  }
  [[nodiscard]] std::int64_t new_label(std::int64_t /*at*/, std::int64_t label) const override {
    if (choice_.classes.empty()) return label;
    const auto found = std::ranges::lower_bound(choice_.classes, label);
    check(found != choice_.classes.end() && *found == label, "choose: image of an unchosen class");
    return found - choice_.classes.begin();
  }

  const Choice choice_;
};

}  // namespace

std::unique_ptr<Dataset> choose(const Dataset& whole, Choice choice) {
  return std::make_unique<ChosenDataset>(whole, std::move(choice));
}

}  // namespace pfc
