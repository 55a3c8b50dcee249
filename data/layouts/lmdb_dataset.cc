#include "data/layouts/lmdb_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "data/damaged_image.h"
#include "data/identity_names.h"
#include "data/images/image_file.h"
#include "data/layouts/labels.h"
#include "data/layouts/lmdb_reader.h"
#include "data/layouts/lmdb_values.h"
#include "data/records/property_file.h"
#include "data/text_lines.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEntriesPerMessage = 4096;  // images between two progress messages

/// Returns -1 if the text is not a number.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number >= 0 ? number : -1;
}

std::int64_t number_after(std::string_view prefix, std::string_view key) {
  return key.starts_with(prefix) ? number_in(key.substr(prefix.size())) : -1;
}

bool describes_the_database(std::string_view key) {
  return key.starts_with("__") || key == "num-samples" || key == "num_samples" || key == "count" ||
         key == "length";
}

/// Reads lines of a key, a space or tab, and a label.
std::unordered_map<std::string, std::int64_t> read_labels(const fs::path& file,
                                                          const Doing& doing) {
  std::unordered_map<std::string, std::int64_t> labels;
  read_lines(file, doing, [&](std::string_view line, std::int64_t number) {
    if (line.empty()) return;
    const std::size_t space = line.find_last_of(" \t");
    const std::int64_t label =
        space == std::string_view::npos ? -1 : parse_label(line.substr(space + 1));
    if (label < 0) {
      throw InputError(
          fmt::format("{}: line {}: found '{}', expected a key and a label, an integer from 0",
                      file.string(), number, line.substr(0, 80)));
    }
    const std::string key(line.substr(0, space));
    if (labels.emplace(key, label).first->second == label) return;
    throw InputError(
        fmt::format("{}: line {}: found another label for '{}' than in an earlier line; keep "
                    "one of the lines",
                    file.string(), number, key.substr(0, 80)));
  });
  return labels;
}

struct Entry {
  std::string key;
  LmdbValue value;
};

struct Numbered {
  std::int64_t number = 0;
  LmdbValue value;
};

/// Returns the entries whose key is PREFIX and a number, in numerical order, without duplicates.
std::vector<Numbered> numbered_entries(std::string_view prefix, const std::vector<Entry>& entries) {
  std::vector<Numbered> found;
  for (const Entry& entry : entries) {
    const std::int64_t number = number_after(prefix, entry.key);
    if (number >= 0) found.push_back({number, entry.value});
  }
  std::ranges::stable_sort(found, {}, &Numbered::number);
  const auto further = std::ranges::unique(found, {}, &Numbered::number);
  found.erase(further.begin(), further.end());
  return found;
}

class LmdbDataset final : public Dataset {
 public:
  explicit LmdbDataset(const DatasetOptions& options);

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const override {
    return extent_of(places_.at(static_cast<std::size_t>(image)));
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override;
  std::int64_t label(std::int64_t image, ImageBuffer& storage) const override {
    if (labels_.empty()) return read(image, storage).label;
    return labels_.at(static_cast<std::size_t>(image));
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return fmt::format("{}: image {} (offset {})", file_->path().string(), image,
                       places_.at(static_cast<std::size_t>(image)).offset);
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override { return names_.at(label); }
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  void find_values(const Doing& doing);
  [[nodiscard]] std::vector<Entry> read_entries(const Doing& doing) const;
  void take_pairs(const std::vector<Entry>& entries);
  void take_labels(const std::vector<Entry>& entries, const Doing& doing);
  [[nodiscard]] std::int64_t label_in(const Numbered& entry, ImageBuffer& storage) const;
  [[nodiscard]] std::int64_t classes(const DatasetOptions& options,
                                     const std::optional<Property>& property);
  [[nodiscard]] std::int64_t classes_of_values(const Doing& doing);
  [[nodiscard]] Extent extent_of(const LmdbValue& value) const {
    return {file_, value.offset - value.header_bytes,
            std::uint64_t{value.header_bytes} + value.bytes};
  }
  [[nodiscard]] std::span<const std::byte> content(const LmdbValue& value,
                                                   StoredImage& stored) const {
    return as_damaged_image([&] { return reader_.content(value, stored.all()); });
  }
  [[nodiscard]] std::span<const std::byte> bytes_at(const LmdbValue& value,
                                                    ImageBuffer& storage) const {
    StoredImage stored(extent_of(value), {}, storage);
    return content(value, stored);
  }
  [[nodiscard]] LabelledImage value(std::int64_t image, StoredImage& stored) const;
  [[nodiscard]] std::string path() const { return file_->path().string(); }

  const std::shared_ptr<const RegularFile> file_;
  const LmdbReader reader_;
  ValueKind kind_ = ValueKind::kImage;
  std::vector<LmdbValue> places_;
  std::vector<std::int64_t> labels_;  ///< empty: the values contain them
  std::int64_t least_label_ = 0;      ///< 0 if labels were not counted
  IdentityNames names_;
  DatasetInfo info_;
};

LmdbDataset::LmdbDataset(const DatasetOptions& options)
    : file_(std::make_shared<const RegularFile>(options.rec)), reader_(*file_) {
  find_values(options.doing);
  places_.shrink_to_fit();
  labels_.shrink_to_fit();
  info_.images = std::ssize(places_);
  const fs::path folder = file_->path().parent_path();
  const auto property = read_property(folder / "property");
  info_.classes = classes(options, property);
  if (info_.classes > kMaxClasses) {
    throw InputError(fmt::format("{}: found {} classes, expected at most {}",
                                 (folder / "property").string(), info_.classes, kMaxClasses));
  }
  names_ = read_identity_names(folder / "identities.txt", info_.classes);
  info_.layout = std::string("LMDB, ") + text_of(kind_);
  info_.index_bytes = places_.capacity() * sizeof(LmdbValue) +
                      labels_.capacity() * sizeof(std::int64_t) + names_.bytes();
  warn_of_classes(info_, least_label_, path());
  ImageSize size{options.image_size, options.image_size};
  if (options.image_size == 0) {
    size = property ? ImageSize{property->height, property->width} : first_image_size(*this);
  }
  info_.height = size.height;
  info_.width = size.width;
}

std::int64_t LmdbDataset::classes(const DatasetOptions& options,
                                  const std::optional<Property>& property) {
  const bool from_property = options.num_classes == 0 && property;
  if (!labels_.empty()) {
    const std::int64_t found = count_classes(labels_, options, path());
    least_label_ = *std::ranges::min_element(labels_);
    if (!from_property) return found;
    if (property->classes >= found) return property->classes;
    throw InputError(fmt::format(
        "{}: found {} classes, but the greatest label is {}: correct or remove this file",
        (file_->path().parent_path() / "property").string(), property->classes, found - 1));
  }
  check_image_count(info_.images, options, path());
  if (options.num_classes != 0) return options.num_classes;
  return from_property ? property->classes : classes_of_values(options.doing);
}

std::vector<Entry> LmdbDataset::read_entries(const Doing& doing) const {
  std::vector<Entry> entries;
  std::uint64_t seen = 0;
  reader_.for_each([&](std::string_view key, const LmdbValue& value) {
    if (doing && seen++ % kEntriesPerMessage == 0) {
      doing(fmt::format("reading the keys of {}: {} of {}", path(), seen, reader_.entries()));
    }
    if (describes_the_database(key)) return;
    if (value.bytes > kMaxImageBytes) {
      throw InputError(fmt::format("{}: found a value of {} bytes, expected at most {}", path(),
                                   value.bytes, kMaxImageBytes));
    }
    entries.push_back({std::string(key), value});
  });
  if (entries.empty()) throw InputError(path() + ": no images; expected at least one");
  return entries;
}

void LmdbDataset::find_values(const Doing& doing) {
  std::vector<Entry> entries = read_entries(doing);
  const auto is_label = [](const Entry& entry) { return number_after("label-", entry.key) >= 0; };
  if (std::ranges::any_of(entries, is_label)) return take_pairs(entries);
  ImageBuffer storage;
  kind_ = kind_of(bytes_at(entries.front().value, storage));
  const auto number_of = [](const Entry& entry) { return number_in(entry.key); };
  if (std::ranges::all_of(entries, [&](const Entry& entry) { return number_of(entry) >= 0; })) {
    std::ranges::stable_sort(entries, {}, number_of);
  }
  if (kind_ == ValueKind::kImage) return take_labels(entries, doing);
  places_.reserve(entries.size());
  for (const Entry& entry : entries) places_.push_back(entry.value);
}

std::int64_t LmdbDataset::label_in(const Numbered& entry, ImageBuffer& storage) const {
  const auto bytes = bytes_at(entry.value, storage);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::int64_t label = parse_label(text);
  if (label >= 0) return label;
  throw InputError(fmt::format("{}: label-{}: found '{}', expected an integer from 0", path(),
                               entry.number, text.substr(0, 40)));
}

void LmdbDataset::take_pairs(const std::vector<Entry>& entries) {
  const std::vector<Numbered> images = numbered_entries("image-", entries);
  const std::vector<Numbered> labels = numbered_entries("label-", entries);
  kind_ = ValueKind::kImage;
  ImageBuffer storage;
  for (const Numbered& image : images) {
    const auto label = std::ranges::lower_bound(labels, image.number, {}, &Numbered::number);
    if (label == labels.end() || label->number != image.number) continue;
    labels_.push_back(label_in(*label, storage));
    places_.push_back(image.value);
  }
  if (places_.empty()) {
    throw InputError(fmt::format(
        "{}: found {} (keys image-NUMBER) and {} (keys label-NUMBER), but no image and label with "
        "the same number; expected at least one",
        path(), counted(std::ssize(images), "image"), counted(std::ssize(labels), "label")));
  }
  const std::int64_t incomplete = std::ssize(images) - std::ssize(places_);
  if (incomplete > 0) {
    info_.warnings.push_back(
        fmt::format("{}: left out {} without a label", path(), counted(incomplete, "image")));
  }
  const std::int64_t others = std::ssize(entries) - std::ssize(images) - std::ssize(places_);
  if (others > 0) {
    info_.warnings.push_back(fmt::format("{}: left out {} besides images and their labels", path(),
                                         counted(others, "key")));
  }
}

void LmdbDataset::take_labels(const std::vector<Entry>& entries, const Doing& doing) {
  const fs::path file = file_->path().parent_path() / "labels.txt";
  if (!something_at(file)) {
    throw InputError(fmt::format(
        "{}: the values are images without labels: expected a line 'KEY LABEL' for each in {}",
        path(), file.string()));
  }
  const auto labels = read_labels(file, doing);
  for (const Entry& entry : entries) {
    const auto found = labels.find(entry.key);
    if (found == labels.end()) continue;
    places_.push_back(entry.value);
    labels_.push_back(found->second);
  }
  if (places_.empty()) {
    throw InputError(
        fmt::format("{}: found {}, none of which is among the {} of {}; expected at least one "
                    "image with a label",
                    path(), counted(std::ssize(entries), "image"),
                    counted(std::ssize(labels), "key"), file.string()));
  }
  const std::int64_t missing = std::ssize(entries) - std::ssize(places_);
  if (missing > 0) {
    info_.warnings.push_back(fmt::format("{}: left out {} without a line in {}", path(),
                                         counted(missing, "image"), file.string()));
  }
}

LabelledImage LmdbDataset::value(std::int64_t image, StoredImage& stored) const {
  const auto i = static_cast<std::size_t>(image);
  LabelledImage parsed =
      parse_value(kind_, content(places_.at(i), stored), name(image), stored.parsed());
  if (!labels_.empty()) parsed.label = labels_[i];
  return parsed;
}

std::int64_t LmdbDataset::classes_of_values(const Doing& doing) {
  std::int64_t greatest = -1, least = kMaxClasses;
  ImageBuffer storage;
  for (std::int64_t i = 0; i < info_.images; ++i) {
    if (doing && i % kEntriesPerMessage == 0) {
      doing(fmt::format("reading the labels of {}: {} of {} images", path(), i, info_.images));
    }
    try {
      StoredImage stored(extent(i), {}, storage);
      const std::int64_t label = value(i, stored).label;
      greatest = std::max(greatest, label);
      least = std::min(least, label);
    } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): training counts it
    }
  }
  least_label_ = least;
  if (greatest >= 0 && greatest < kMaxClasses) return greatest + 1;
  throw InputError(fmt::format("{}: none of the {} values has a valid label; expected {}", path(),
                               info_.images, text_of(kind_)));
}

Sample LmdbDataset::parse(std::int64_t image, StoredImage& stored) const {
  const LabelledImage parsed = value(image, stored);
  if (parsed.label < 0 || parsed.label >= info_.classes) {
    throw InputError(fmt::format("{}: found label {}, expected 0 .. {}", name(image), parsed.label,
                                 info_.classes - 1));
  }
  return {.encoded = parsed.image, .label = parsed.label};
}

std::vector<FileBrief> LmdbDataset::briefs() const {
  Sha256 sum;
  for (const LmdbValue& place : places_) {
    sum.update(std::as_bytes(std::span(&place.offset, 1)));
    sum.update(std::as_bytes(std::span(&place.bytes, 1)));
  }
  sum.update(std::as_bytes(std::span(labels_)));
  return {{file_->path(),
           fmt::format("{} images of {} classes, {} x {} pixels, {} bytes, sha256 of their places "
                       "and labels {}",
                       info_.images, info_.classes, info_.height, info_.width, file_->bytes(),
                       sum.finish().substr(0, 16))}};
}

}  // namespace

std::unique_ptr<Dataset> open_lmdb_dataset(const DatasetOptions& options) {
  return std::make_unique<LmdbDataset>(options);
}

}  // namespace pfc
