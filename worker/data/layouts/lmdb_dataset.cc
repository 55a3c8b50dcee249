#include "worker/data/layouts/lmdb_dataset.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <numeric>
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
#include "worker/data/damaged_image.h"
#include "worker/data/identity_names.h"
#include "worker/data/layouts/labels.h"
#include "worker/data/layouts/lmdb_reader.h"
#include "worker/data/layouts/lmdb_values.h"
#include "worker/data/records/property_file.h"
#include "worker/data/text_lines.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxValueBytes = std::uint64_t{1} << 29;
constexpr std::int64_t kTold = 4096;  // images between two words about it

/// -1: the text is no number.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number >= 0 ? number : -1;
}

bool describes_the_database(std::string_view key) {
  return key.starts_with("__") || key == "num-samples" || key == "num_samples" || key == "count" ||
         key == "length";
}

/// Lines of a key, a space or a tab, and a label.
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
    labels[std::string(line.substr(0, space))] = label;
  });
  return labels;
}

struct Place {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

class LmdbDataset final : public Dataset {
 public:
  explicit LmdbDataset(const DatasetOptions& options);

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  Sample read(std::int64_t image, std::vector<std::byte>& storage) const override;
  std::int64_t label(std::int64_t image, std::vector<std::byte>& storage) const override {
    if (labels_.empty()) return read(image, storage).label;
    return labels_.at(static_cast<std::size_t>(image));
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return fmt::format("{}: image {} (offset {})", file_.path().string(), image,
                       places_.at(static_cast<std::size_t>(image)).offset);
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override { return names_.at(label); }
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  void find_values(const Doing& doing);
  void take_pairs(const std::map<std::int64_t, Place>& images,
                  const std::map<std::int64_t, Place>& labels);
  void take_labels(const std::vector<std::string>& keys, const Doing& doing);
  [[nodiscard]] std::int64_t classes_of_values(const Doing& doing) const;
  [[nodiscard]] std::span<const std::byte> bytes_at(const Place& place, const std::string& name,
                                                    std::vector<std::byte>& storage) const;
  [[nodiscard]] LabelledImage value(std::int64_t image, std::vector<std::byte>& storage) const;
  [[nodiscard]] std::string path() const { return file_.path().string(); }

  const RegularFile file_;
  ValueKind kind_ = ValueKind::kImage;
  std::vector<Place> places_;
  std::vector<std::int64_t> labels_;  ///< empty: they are in the values
  IdentityNames names_;
  DatasetInfo info_;
};

LmdbDataset::LmdbDataset(const DatasetOptions& options) : file_(options.rec) {
  find_values(options.doing);
  info_.images = std::ssize(places_);
  const fs::path folder = file_.path().parent_path();
  const auto property = read_property(folder / "property");
  if (!labels_.empty()) {
    info_.classes = count_classes(labels_, options, path());
  } else {
    check_image_count(info_.images, options, path());
    info_.classes = options.num_classes != 0 ? options.num_classes
                    : property               ? property->classes
                                             : classes_of_values(options.doing);
  }
  if (info_.classes > kMaxClasses) {
    throw InputError(fmt::format("{}: found {} classes, expected at most {}",
                                 (folder / "property").string(), info_.classes, kMaxClasses));
  }
  names_ = read_identity_names(folder / "identities.txt", info_.classes);
  info_.layout = std::string("LMDB, ") + text_of(kind_);
  info_.index_bytes = places_.capacity() * sizeof(Place) +
                      labels_.capacity() * sizeof(std::int64_t) + names_.bytes();
  warn_of_classes(info_, path());
  ImageSize size{options.image_size, options.image_size};
  if (options.image_size == 0) {
    size = property ? ImageSize{property->height, property->width} : first_image_size(*this);
  }
  info_.height = size.height;
  info_.width = size.width;
}

void LmdbDataset::find_values(const Doing& doing) {
  const LmdbReader reader(file_);
  std::map<std::int64_t, Place> images, labels;  // of keys image-N and label-N
  std::vector<std::string> keys;
  std::uint64_t seen = 0;
  reader.for_each([&](std::string_view key, const LmdbValue& value) {
    if (doing && seen++ % kTold == 0) {
      doing(fmt::format("reading the keys of {}: {} of {}", path(), seen, reader.entries()));
    }
    if (describes_the_database(key)) return;
    if (value.bytes > kMaxValueBytes) {
      throw InputError(fmt::format("{}: found a value of {} bytes, expected at most {}", path(),
                                   value.bytes, kMaxValueBytes));
    }
    const Place place{value.offset, static_cast<std::uint32_t>(value.bytes)};
    for (auto& [prefix, which] : {std::pair{"image-", &images}, {"label-", &labels}}) {
      if (!key.starts_with(prefix)) continue;
      const std::int64_t number = number_in(key.substr(6));
      if (number < 0) break;
      (*which)[number] = place;
      return;
    }
    keys.emplace_back(key);
    places_.push_back(place);
  });
  if (!images.empty()) return take_pairs(images, labels);
  if (places_.empty()) throw InputError(path() + ": no images; expected at least one");
  std::vector<std::byte> storage;
  kind_ = kind_of(bytes_at(places_.front(), path(), storage));
  if (std::ranges::all_of(keys, [](const std::string& key) { return number_in(key) >= 0; })) {
    std::vector<std::size_t> order(keys.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return number_in(keys[i]); });
    std::vector<Place> sorted_places;
    std::vector<std::string> sorted_keys;
    for (const std::size_t i : order) {
      sorted_places.push_back(places_[i]);
      sorted_keys.push_back(std::move(keys[i]));
    }
    places_ = std::move(sorted_places);
    keys = std::move(sorted_keys);
  }
  if (kind_ == ValueKind::kImage) take_labels(keys, doing);
  places_.shrink_to_fit();
}

void LmdbDataset::take_pairs(const std::map<std::int64_t, Place>& images,
                             const std::map<std::int64_t, Place>& labels) {
  std::int64_t incomplete = 0;
  std::vector<std::byte> storage;
  places_.clear();
  for (const auto& [number, image] : images) {
    const auto found = labels.find(number);
    if (found == labels.end()) {
      ++incomplete;
      continue;
    }
    const auto bytes = bytes_at(found->second, path(), storage);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::int64_t label = parse_label(text);
    if (label < 0) {
      throw InputError(fmt::format("{}: label-{}: found '{}', expected an integer from 0", path(),
                                   number, text.substr(0, 40)));
    }
    places_.push_back(image);
    labels_.push_back(label);
  }
  kind_ = ValueKind::kImage;
  if (incomplete == 0) return;
  info_.warnings.push_back(
      fmt::format("{}: left out {} without a label", path(), counted(incomplete, "image")));
}

void LmdbDataset::take_labels(const std::vector<std::string>& keys, const Doing& doing) {
  const fs::path file = file_.path().parent_path() / "labels.txt";
  if (!something_at(file)) {
    throw InputError(fmt::format(
        "{}: the values are images without labels: expected a line 'KEY LABEL' for each in {}",
        path(), file.string()));
  }
  const auto labels = read_labels(file, doing);
  std::vector<Place> labelled;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = labels.find(keys[i]);
    if (found == labels.end()) continue;
    labelled.push_back(places_[i]);
    labels_.push_back(found->second);
  }
  const auto missing = static_cast<long long>(places_.size() - labelled.size());
  if (missing > 0) {
    info_.warnings.push_back(fmt::format("{}: left out {} without a line in {}", path(),
                                         counted(missing, "image"), file.string()));
  }
  places_ = std::move(labelled);
}

std::span<const std::byte> LmdbDataset::bytes_at(const Place& place, const std::string& name,
                                                 std::vector<std::byte>& storage) const {
  if (storage.size() < place.bytes) storage.resize(place.bytes);
  for (std::size_t done = 0; done < place.bytes;) {
    const ssize_t n = ::pread(file_.fd(), storage.data() + done, place.bytes - done,
                              static_cast<off_t>(place.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw DamagedImage(name + ": cannot be read: the file is cut short");
    done += static_cast<std::size_t>(n);
  }
  return std::span(storage).first(place.bytes);
}

LabelledImage LmdbDataset::value(std::int64_t image, std::vector<std::byte>& storage) const {
  const auto i = static_cast<std::size_t>(image);
  const std::string its_name = name(image);
  const std::size_t bytes = bytes_at(places_.at(i), its_name, storage).size();
  LabelledImage parsed = parse_value(kind_, bytes, its_name, storage);
  if (!labels_.empty()) parsed.label = labels_[i];
  return parsed;
}

std::int64_t LmdbDataset::classes_of_values(const Doing& doing) const {
  std::int64_t greatest = -1;
  std::vector<std::byte> storage;
  for (std::int64_t i = 0; i < info_.images; ++i) {
    if (doing && i % kTold == 0) {
      doing(fmt::format("reading the labels of {}: {} of {} images", path(), i, info_.images));
    }
    try {
      greatest = std::max(greatest, value(i, storage).label);
    } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): training counts it
    }
  }
  if (greatest >= 0 && greatest < kMaxClasses) return greatest + 1;
  throw InputError(fmt::format("{}: none of the {} values is {} with a label", path(), info_.images,
                               text_of(kind_)));
}

Sample LmdbDataset::read(std::int64_t image, std::vector<std::byte>& storage) const {
  check(image >= 0 && image < info_.images, "Dataset: no such image");
  const LabelledImage parsed = value(image, storage);
  if (parsed.label < 0 || parsed.label >= info_.classes) {
    throw InputError(fmt::format("{}: found label {}, expected 0 .. {}", name(image), parsed.label,
                                 info_.classes - 1));
  }
  return {.encoded = parsed.image, .label = parsed.label};
}

std::vector<FileBrief> LmdbDataset::briefs() const {
  Sha256 sum;
  for (const Place& place : places_) {
    sum.update(std::as_bytes(std::span(&place.offset, 1)));
    sum.update(std::as_bytes(std::span(&place.bytes, 1)));
  }
  sum.update(std::as_bytes(std::span(labels_)));
  return {{file_.path(),
           fmt::format("{} images of {} classes, {} x {} pixels, {} bytes, sha256 of their places "
                       "and labels {}",
                       info_.images, info_.classes, info_.height, info_.width, file_.bytes(),
                       sum.finish().substr(0, 16))}};
}

}  // namespace

std::unique_ptr<Dataset> open_lmdb_dataset(const DatasetOptions& options) {
  return std::make_unique<LmdbDataset>(options);
}

}  // namespace pfc
