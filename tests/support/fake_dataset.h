// A data set in memory.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "data/damaged_image.h"
#include "data/dataset.h"
#include "tests/support/encoded_images.h"

namespace pfc::testing {

/// Images of 8 x 8 pixels. The label of an image is its number. Some images are damaged.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(std::int64_t images)
      : info_{.images = images, .classes = images, .height = 8, .width = 8} {
    for (unsigned i = 0; i < images; ++i) encoded_.push_back(make_jpeg(8, 8, i));
  }
  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t) const override { return {}; }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    if (image == bad_label) throw InputError("label of image " + std::to_string(image));
    if (unreadable.contains(image)) throw DamagedImage(name(image) + ": unreadable");
    stored.parsed() = encoded_[static_cast<std::size_t>(image)];
    if (cut.contains(image)) stored.parsed().resize(stored.parsed().size() / 2);
    return {stored.parsed(), image};
  }
  [[nodiscard]] std::string identity(std::int64_t) const override { return {}; }
  [[nodiscard]] std::vector<FileBrief> briefs() const override { return {}; }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return "fake.rec: record " + std::to_string(image);
  }

  std::set<std::int64_t> unreadable;
  std::set<std::int64_t> cut;
  std::int64_t bad_label = -1;

 private:
  DatasetInfo info_;
  std::vector<std::vector<std::byte>> encoded_;
};

}  // namespace pfc::testing
