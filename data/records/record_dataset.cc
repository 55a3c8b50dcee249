#include "data/records/record_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "data/damaged_image.h"
#include "data/identity_names.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/record_part.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

/// Compares as floats, because converting NaN or a huge float to an integer is undefined.
bool is_label(float label, std::int64_t classes) {
  return label >= 0 && label < static_cast<float>(classes) && std::trunc(label) == label;
}

/// A number of classes and its source, for messages.
struct Classes {
  std::int64_t count = 0;
  std::string source;
  std::int64_t least = 0;  ///< smallest label; 0 if labels were not counted
};

/// Location of an image.
struct Place {
  const RecordPart& part;
  std::int64_t image;  ///< its number within the part
};

class RecordDataset final : public Dataset {
 public:
  RecordDataset(std::span<const fs::path> recs, const DatasetOptions& options);

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const override {
    const auto [part, of_part] = place(image);
    return part.extent(of_part);
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override;
  [[nodiscard]] std::string name(std::int64_t image) const override {
    const auto [part, of_part] = place(image);
    return part.name(of_part);
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override { return names_.at(label); }
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  void open(std::span<const fs::path> recs, const Doing& doing);
  [[nodiscard]] Place place(std::int64_t image) const;
  [[nodiscard]] Classes classes(const DatasetOptions& options,
                                const std::optional<Property>& property) const;
  [[nodiscard]] Classes classes_of_labels(const Doing& doing) const;
  void find_size(std::int64_t wanted, const std::optional<Property>& property);
  void warn_of_another_size(const std::string& source);
  [[nodiscard]] std::string checksum_of_some_records() const;
  [[nodiscard]] fs::path folder() const { return parts_.front().path().parent_path(); }

  std::deque<RecordPart> parts_;     // a deque, because parts cannot move
  std::vector<std::int64_t> begin_;  ///< first image of each part
  DatasetInfo info_;
  std::string origin_;  ///< for messages: the file, or the first one and the number of files
  std::string classes_source_;
  IdentityNames names_;
};

RecordDataset::RecordDataset(std::span<const fs::path> recs, const DatasetOptions& options) {
  open(recs, options.doing);
  if (options.num_image != 0 && options.num_image != info_.images) {
    throw InputError(
        fmt::format("{}: found {} images, but num_image is {}: correct or remove num_image",
                    origin_, info_.images, options.num_image));
  }
  const auto property = read_property(folder() / "property");
  Classes found = classes(options, property);
  info_.classes = found.count;
  classes_source_ = std::move(found.source);
  warn_of_least_label(info_, found.least, origin_);
  names_ = read_identity_names(folder() / "identities.txt", info_.classes);
  info_.index_bytes += names_.bytes();
  find_size(options.image_size, property);
  if (info_.classes > info_.images) {
    info_.warnings.push_back(
        fmt::format("{} says {} classes, but there are only {} images: is a label wrong?",
                    classes_source_, info_.classes, info_.images));
  }
}

void RecordDataset::open(std::span<const fs::path> recs, const Doing& doing) {
  check(!recs.empty(), "open_record_dataset: no files");
  bool insightface = false;
  for (const fs::path& rec : recs) {
    const RecordPart& part = parts_.emplace_back(rec, doing);
    begin_.push_back(info_.images);
    if (part.bytes_in_order() > 0 && info_.images_in_order == info_.images) {
      info_.images_in_order += part.images();
      info_.bytes_in_order += part.bytes_in_order();
    }
    info_.images += part.images();
    info_.index_bytes += part.index_bytes();
    info_.warnings.insert(info_.warnings.end(), part.warnings().begin(), part.warnings().end());
    insightface = insightface || part.identities() > 0;
  }
  info_.layout = insightface ? "RecordIO with InsightFace's record 0" : "RecordIO";
  origin_ = recs.front().string();
  if (recs.size() == 1) return;
  info_.layout += fmt::format(", {} files", recs.size());
  origin_ += fmt::format(" and {}", counted(static_cast<long long>(recs.size() - 1), "more file"));
}

Place RecordDataset::place(std::int64_t image) const {
  check(image >= 0 && image < info_.images, "Dataset: no such image");
  const auto behind = std::ranges::upper_bound(begin_, image);
  const std::int64_t first = *std::prev(behind);
  return {parts_[static_cast<std::size_t>(behind - begin_.begin() - 1)], image - first};
}

void RecordDataset::find_size(std::int64_t wanted, const std::optional<Property>& property) {
  ImageSize size{wanted, wanted};
  if (wanted == 0) {
    size = property ? ImageSize{property->height, property->width} : first_image_size(*this);
  }
  info_.height = size.height;
  info_.width = size.width;
  if (property && wanted == 0) warn_of_another_size((folder() / "property").string());
}

/// Warns if images are not of the size used in training. No other message would say so.
void RecordDataset::warn_of_another_size(const std::string& source) {
  try {
    const ImageSize first = first_image_size(*this);
    if (first.height == info_.height && first.width == info_.width) return;
    info_.warnings.push_back(fmt::format(
        "{} says that images are {} x {} (height x width), but the first one is {} x {}: images "
        "of another size are resized",
        source, info_.height, info_.width, first.height, first.width));
  } catch (const InputError&) {  // NOLINT(bugprone-empty-catch): reported in training
  }
}

Classes RecordDataset::classes(const DatasetOptions& options,
                               const std::optional<Property>& property) const {
  std::vector<Classes> sources;
  if (property) sources.push_back({property->classes, folder().string() + "/property"});
  // With several files, record 0 only counts the people in its own file.
  const RecordPart& first = parts_.front();
  if (parts_.size() == 1 && first.identities() > 0) {
    sources.push_back({first.identities(), "record 0 of " + first.path().string()});
  }
  if (options.num_classes != 0) sources.push_back({options.num_classes, options.classes_key});
  if (sources.empty()) sources.push_back(classes_of_labels(options.doing));
  for (const Classes& other : sources) {
    if (other.count == sources.front().count) continue;
    throw InputError(fmt::format("{} says {} classes, but {} says {}", sources.front().source,
                                 sources.front().count, other.source, other.count));
  }
  if (sources.front().count < 1 || sources.front().count > kMaxFloatLabel) {
    throw InputError(
        fmt::format("{} says {} classes; RecordIO's float32 labels can distinguish 1 .. {}",
                    sources.front().source, sources.front().count, kMaxFloatLabel));
  }
  return sources.front();
}

Classes RecordDataset::classes_of_labels(const Doing& doing) const {
  constexpr std::int64_t kRecordsPerMessage = 4096;  // images between two progress messages
  ImageBuffer storage;
  std::int64_t greatest = -1, least = kMaxFloatLabel;
  std::int64_t where = 0;
  for (std::int64_t i = 0; i < info_.images; ++i) {
    if (doing && i % kRecordsPerMessage == 0) {
      doing(fmt::format("reading the labels of {}: {} of {} images", origin_, i, info_.images));
    }
    try {
      const auto [part, image] = place(i);
      const float label = part.read(image, storage).record.label;
      // RecordIO's float32 labels cannot distinguish more classes.
      if (!is_label(label, kMaxFloatLabel)) {
        throw InputError(fmt::format("{}: found label {}, expected an integer of 0 .. {}", name(i),
                                     label, kMaxFloatLabel - 1));
      }
      least = std::min(least, static_cast<std::int64_t>(label));
      if (static_cast<std::int64_t>(label) > greatest) {
        greatest = static_cast<std::int64_t>(label);
        where = i;
      }
    } catch (const DamagedImage&) {
      // Training counts and reports a damaged image when it reads it.
    }
  }
  if (greatest < 0) {
    throw InputError(
        fmt::format("{}: none of the {} records can be read as an image", origin_, info_.images));
  }
  return {greatest + 1, fmt::format("the greatest label ({})", name(where)), least};
}

Sample RecordDataset::parse(std::int64_t image, StoredImage& stored) const {
  const auto [part, of_part] = place(image);
  const auto [payload, r] = part.parse(of_part, stored);
  if (!is_label(r.label, info_.classes)) {
    throw InputError(fmt::format("{}: found label {}, expected 0 .. {} ({} says {} classes)",
                                 name(image), r.label, info_.classes - 1, classes_source_,
                                 info_.classes));
  }
  return {r.image, static_cast<std::int64_t>(r.label), payload};
}

/// The first digits are enough to distinguish data sets.
std::string short_checksum(const std::string& sha256) { return sha256.substr(0, 16); }

/// Includes labels and images, because other data may have the same sizes.
std::string RecordDataset::checksum_of_some_records() const {
  constexpr std::int64_t kRecords = 16;
  Sha256 sum;
  ImageBuffer storage;
  const std::int64_t distance = std::max<std::int64_t>(info_.images / kRecords, 1);
  for (std::int64_t i = 0; i < info_.images; i += distance) {
    try {
      const auto [part, image] = place(i);
      const ImageRecord r = part.read(image, storage).record;
      sum.update(std::as_bytes(std::span(&r.label, 1)));
      sum.update(r.image);
    } catch (const DamagedImage&) {
      sum.update(std::as_bytes(std::span(&i, 1)));
    }
  }
  return short_checksum(sum.finish());
}

std::vector<FileBrief> RecordDataset::briefs() const {
  Sha256 offsets;
  std::uint64_t bytes = 0;
  const RecordPart* largest = &parts_.front();
  for (const RecordPart& part : parts_) {
    offsets.update(std::as_bytes(part.offsets()));
    bytes += part.reader().bytes();
    if (part.reader().bytes() > largest->reader().bytes()) largest = &part;
  }
  const std::string files = parts_.size() == 1 ? "" : fmt::format(" in {} files", parts_.size());
  return {{parts_.front().index(),
           fmt::format("{} images of {} classes, {} x {} pixels, sha256 of their offsets {}",
                       info_.images, info_.classes, info_.height, info_.width,
                       short_checksum(offsets.finish()))},
          {largest->path(), fmt::format("{} bytes{}, sha256 of some records {}", bytes, files,
                                        checksum_of_some_records())}};
}

}  // namespace

std::unique_ptr<Dataset> open_record_dataset(std::span<const fs::path> recs,
                                             const DatasetOptions& options) {
  return std::make_unique<RecordDataset>(recs, options);
}

}  // namespace pfc
