#include "worker/data/records/record_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "worker/data/damaged_image.h"
#include "worker/data/identity_names.h"
#include "worker/data/records/image_record.h"
#include "worker/data/records/index_coverage.h"
#include "worker/data/records/property_file.h"
#include "worker/data/records/record_index.h"
#include "worker/data/records/record_layout.h"
#include "worker/data/records/record_reader.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

/// Compared as floats: converting a NaN or a huge float to an integer is undefined.
bool is_label(float label, std::int64_t classes) {
  return label >= 0 && label < static_cast<float>(classes) && std::trunc(label) == label;
}

/// Where a number of classes comes from, for messages.
struct Classes {
  std::int64_t count = 0;
  std::string source;
};

class RecordDataset final : public Dataset {
 public:
  explicit RecordDataset(const DatasetOptions& options);

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  Sample read(std::int64_t image, std::vector<std::byte>& storage) const override {
    return sample(image, {}, storage);
  }
  [[nodiscard]] std::optional<FileStretch> stretch(const ImageRange& images) const override;
  Sample read_stored(std::int64_t image, std::span<const std::byte> stored,
                     std::vector<std::byte>& storage) const override {
    return sample(image, stored, storage);
  }
  [[nodiscard]] std::string name(std::int64_t image) const override;
  [[nodiscard]] std::string identity(std::int64_t label) const override;
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  /// A record and what it holds.
  struct Read {
    std::span<const std::byte> payload;
    ImageRecord record;
  };
  /// `stored`: its bytes, where they are in memory; otherwise empty.
  [[nodiscard]] Read record(std::int64_t image, std::span<const std::byte> stored,
                            std::vector<std::byte>& storage) const;
  Sample sample(std::int64_t image, std::span<const std::byte> stored,
                std::vector<std::byte>& storage) const;
  void find_records(const Doing& doing);
  [[nodiscard]] Classes classes(const DatasetOptions& options,
                                const std::optional<Property>& property) const;
  [[nodiscard]] Classes classes_of_labels(const Doing& doing) const;
  void find_size(std::int64_t wanted, const std::optional<Property>& property);
  void warn_of_another_size(const std::string& source);
  void check_last_record();
  [[nodiscard]] std::string checksum_of_some_records() const;

  RecordReader rec_;
  RecordLayout layout_;
  bool in_order_ = false;  ///< whether images lie in the .rec as they are numbered
  std::uint64_t end_ = 0;  ///< of the record behind all others that are images
  DatasetInfo info_;
  std::string classes_source_;
  IdentityNames names_;
  fs::path index_;  ///< the .idx, or the .rec where there is none
};

RecordDataset::RecordDataset(const DatasetOptions& options) : rec_(options.rec) {
  find_records(options.doing);
  info_.images = static_cast<std::int64_t>(layout_.offsets.size());
  if (options.num_image != 0 && options.num_image != info_.images) {
    throw InputError(
        fmt::format("{}: found {} images, but num_image is {}: correct it or leave it "
                    "out",
                    rec_.path().string(), info_.images, options.num_image));
  }
  const auto property = read_property(rec_.path().parent_path() / "property");
  Classes found = classes(options, property);
  info_.classes = found.count;
  classes_source_ = std::move(found.source);
  names_ = read_identity_names(rec_.path().parent_path() / "identities.txt", info_.classes);
  info_.layout = layout_.identities > 0 ? "RecordIO with InsightFace's record 0" : "RecordIO";
  info_.index_bytes = layout_.bytes() + names_.bytes();
  find_size(options.image_size, property);
  if (info_.classes > info_.images) {
    info_.warnings.push_back(
        fmt::format("{} says {} classes, but there are only {} images: is a label mistaken?",
                    classes_source_, info_.classes, info_.images));
  }
}

void RecordDataset::find_size(std::int64_t wanted, const std::optional<Property>& property) {
  ImageSize size{wanted, wanted};
  if (wanted == 0) {
    size = property ? ImageSize{property->height, property->width} : first_image_size(*this);
  }
  info_.height = size.height;
  info_.width = size.width;
  if (property && wanted == 0) {
    warn_of_another_size((rec_.path().parent_path() / "property").string());
  }
}

/// Nothing else would say that the images are not of the size that they are trained with.
void RecordDataset::warn_of_another_size(const std::string& source) {
  try {
    const ImageSize first = first_image_size(*this);
    if (first.height == info_.height && first.width == info_.width) return;
    info_.warnings.push_back(fmt::format(
        "{} says that images are {} x {} (height x width), but the first one is {} x {}: those of "
        "another size are resized",
        source, info_.height, info_.width, first.height, first.width));
  } catch (const InputError&) {  // NOLINT(bugprone-empty-catch): told when it is read in training
  }
}

/// Where each image is, and what is wrong with the index.
void RecordDataset::find_records(const Doing& doing) {
  const fs::path idx = fs::path(rec_.path()).replace_extension(".idx");
  const bool indexed = something_at(idx);
  index_ = indexed ? idx : rec_.path();
  const std::string origin = index_.string();
  layout_ = find_images(
      rec_, indexed ? read_record_index(idx, rec_, doing) : scan_records(rec_, doing), origin);
  check_last_record();
  if (!indexed) return;
  // In InsightFace's layout no image is without a line, and the other records are no images.
  const bool all_are_images = layout_.identities == 0;
  info_.warnings = index_warnings(index_coverage(rec_, layout_.offsets), all_are_images, origin,
                                  rec_.path().string());
}

Classes RecordDataset::classes(const DatasetOptions& options,
                               const std::optional<Property>& property) const {
  const std::string folder = rec_.path().parent_path().string();
  std::vector<Classes> sources;
  if (property) sources.push_back({property->classes, folder + "/property"});
  if (layout_.identities > 0) {
    sources.push_back({layout_.identities, "record 0 of " + rec_.path().string()});
  }
  if (options.num_classes != 0) sources.push_back({options.num_classes, "num_classes"});
  if (sources.empty()) sources.push_back(classes_of_labels(options.doing));
  for (const Classes& other : sources) {
    if (other.count == sources.front().count) continue;
    throw InputError(fmt::format("{} says {} classes, but {} says {}", sources.front().source,
                                 sources.front().count, other.source, other.count));
  }
  if (sources.front().count < 1 || sources.front().count > kMaxFloatLabel) {
    throw InputError(fmt::format("{} says {} classes; RecordIO's float32 labels tell 1 .. {} apart",
                                 sources.front().source, sources.front().count, kMaxFloatLabel));
  }
  return sources.front();
}

/// A .rec that lost its end still has all its keys in the .idx; a record cut in two is only seen at
/// the place of the greatest offset. An .idx that was cut in the middle of a number has another
/// one in its last line.
void RecordDataset::check_last_record() {
  const auto last = std::max_element(layout_.offsets.begin(), layout_.offsets.end());
  end_ = rec_.record_end(*last);
  in_order_ = std::ranges::is_sorted(layout_.offsets);
  (void)rec_.record_end(layout_.offsets.back());
}

Classes RecordDataset::classes_of_labels(const Doing& doing) const {
  constexpr std::int64_t kTold = 4096;  // images between two words about it
  std::vector<std::byte> storage;
  std::int64_t greatest = -1;
  std::int64_t where = 0;
  for (std::int64_t i = 0; i < info_.images; ++i) {
    if (doing && i % kTold == 0) {
      doing(fmt::format("reading the labels of {}: {} of {} images", rec_.path().string(), i,
                        info_.images));
    }
    try {
      const float label = record(i, {}, storage).record.label;
      // RecordIO's float32 labels tell no more classes apart.
      if (!is_label(label, kMaxFloatLabel)) {
        throw InputError(fmt::format("{}: found label {}, expected an integer of 0 .. {}", name(i),
                                     label, kMaxFloatLabel - 1));
      }
      if (static_cast<std::int64_t>(label) > greatest) {
        greatest = static_cast<std::int64_t>(label);
        where = i;
      }
    } catch (const DamagedImage&) {
      // Training counts and reports it when it comes to it.
    }
  }
  if (greatest < 0) {
    throw InputError(fmt::format("{}: none of the {} records can be read as an image",
                                 rec_.path().string(), info_.images));
  }
  return {greatest + 1, fmt::format("the greatest label ({})", name(where))};
}

RecordDataset::Read RecordDataset::record(std::int64_t image, std::span<const std::byte> stored,
                                          std::vector<std::byte>& storage) const {
  check(image >= 0 && image < static_cast<std::int64_t>(layout_.offsets.size()),
        "Dataset: no such image");
  const std::uint64_t offset = layout_.offsets[static_cast<std::size_t>(image)];
  try {
    const auto payload = rec_.read_stored(offset, stored, storage);
    const auto parsed = parse_image_record(payload);
    if (parsed) return {payload, *parsed};
    throw DamagedImage(
        fmt::format("{}: offset {}: a record of {} bytes is too short for its image "
                    "header and labels",
                    rec_.path().string(), offset, payload.size()));
  } catch (const DamagedImage& e) {
    throw DamagedImage(
        fmt::format("{} (record {})", e.what(), layout_.key(static_cast<std::size_t>(image))));
  }
}

std::optional<FileStretch> RecordDataset::stretch(const ImageRange& images) const {
  check(images.first >= 0 && images.first < images.end && images.end <= info_.images,
        "Dataset: no such images");
  if (!in_order_) return std::nullopt;
  const std::uint64_t begin = layout_.offsets[static_cast<std::size_t>(images.first)];
  // Several lines of an index may name the same record.
  const auto last = layout_.offsets.begin() + (images.end - 1);
  const auto behind = std::upper_bound(last, layout_.offsets.end(), *last);
  const std::uint64_t end = behind == layout_.offsets.end() ? end_ : *behind;
  return FileStretch{.fd = rec_.fd(), .offset = begin, .bytes = end - begin};
}

Sample RecordDataset::sample(std::int64_t image, std::span<const std::byte> stored,
                             std::vector<std::byte>& storage) const {
  const auto [payload, r] = record(image, stored, storage);
  if (!is_label(r.label, info_.classes)) {
    throw InputError(fmt::format("{}: found label {}, expected 0 .. {} ({} says {} classes)",
                                 name(image), r.label, info_.classes - 1, classes_source_,
                                 info_.classes));
  }
  return {r.image, static_cast<std::int64_t>(r.label), payload};
}

std::string RecordDataset::name(std::int64_t image) const {
  const auto i = static_cast<std::size_t>(image);
  return fmt::format("{}: record {} (offset {})", rec_.path().string(), layout_.key(i),
                     layout_.offsets.at(i));
}

std::string RecordDataset::identity(std::int64_t label) const { return names_.at(label); }

/// The first digits tell data sets apart.
std::string short_checksum(const std::string& sha256) { return sha256.substr(0, 16); }

/// Labels and images: other ones may have the same sizes.
std::string RecordDataset::checksum_of_some_records() const {
  constexpr std::int64_t kRecords = 16;
  Sha256 sum;
  std::vector<std::byte> storage;
  const std::int64_t distance = std::max<std::int64_t>(info_.images / kRecords, 1);
  for (std::int64_t i = 0; i < info_.images; i += distance) {
    try {
      const ImageRecord r = record(i, {}, storage).record;
      sum.update(std::as_bytes(std::span(&r.label, 1)));
      sum.update(r.image);
    } catch (const DamagedImage&) {
      sum.update(std::as_bytes(std::span(&i, 1)));
    }
  }
  return short_checksum(sum.finish());
}

std::vector<FileBrief> RecordDataset::briefs() const {
  const std::string offsets = sha256_hex(std::as_bytes(std::span(layout_.offsets)));
  return {
      {index_, fmt::format("{} images of {} classes, {} x {} pixels, sha256 of their offsets {}",
                           info_.images, info_.classes, info_.height, info_.width,
                           short_checksum(offsets))},
      {rec_.path(), fmt::format("{} bytes, sha256 of some records {}", rec_.bytes(),
                                checksum_of_some_records())}};
}

}  // namespace

std::unique_ptr<Dataset> open_record_dataset(const DatasetOptions& options) {
  return std::make_unique<RecordDataset>(options);
}

}  // namespace pfc
