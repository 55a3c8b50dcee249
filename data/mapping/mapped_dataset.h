// Base class of data sets that show images of another one under other numbers and labels.
#pragma once

#include <cstdint>
#include <string>

#include "data/dataset.h"

namespace pfc {

class MappedDataset : public Dataset {
 public:
  [[nodiscard]] const DatasetInfo& info() const final { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const final {
    return whole_.extent(original(image));
  }
  Sample parse(std::int64_t image, StoredImage& stored) const final {
    const std::int64_t at = original(image);
    Sample sample = whole_.parse(at, stored);
    const std::int64_t label = new_label(at, sample.label);
    if (label != sample.label) sample.record = {};  // contains the old label
    sample.label = label;
    return sample;
  }
  std::int64_t label(std::int64_t image, ImageBuffer& storage) const final {
    const std::int64_t at = original(image);
    return new_label(at, whole_.label(at, storage));
  }
  [[nodiscard]] std::string name(std::int64_t image) const final {
    return whole_.name(original(image));
  }

 protected:
  /// Borrows `whole`. REQUIRES: its images have one label each.
  explicit MappedDataset(const Dataset& whole) : whole_(whole), info_(whole.info()) {}

  /// Returns the image's number in the whole set.
  [[nodiscard]] virtual std::int64_t original(std::int64_t image) const = 0;
  /// Returns the label here of an image that has this number and label in the whole set.
  [[nodiscard]] virtual std::int64_t new_label(std::int64_t at, std::int64_t label) const = 0;

  const Dataset& whole_;
  DatasetInfo info_;  ///< that of the whole set; the derived class's constructor changes it
};

}  // namespace pfc
