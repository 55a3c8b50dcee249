#include "data/layouts/tar_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "common/one_line.h"
#include "data/damaged_image.h"
#include "data/identity_names.h"
#include "data/images/image_file.h"
#include "data/layouts/labels.h"
#include "data/layouts/layout.h"
#include "data/layouts/staged_names.h"
#include "data/layouts/tar_reader.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpectedMembers =
    "members that follow each other, with the same name up to the first dot: an image, and its "
    "label in .cls, .class, .index or .txt, or in .json under label, cls or class";

/// Cache of open files. If there are many shards, closes the least recently used one. Thread-safe.
class OpenShards {
 public:
  explicit OpenShards(const std::vector<fs::path>& paths) : paths_(paths) {}

  std::shared_ptr<const RegularFile> get(std::size_t shard) const {
    const std::lock_guard lock(mutex_);
    const auto there = std::ranges::find(open_, shard, &Open::shard);
    if (there != open_.end()) {
      open_.splice(open_.begin(), open_, there);
      return open_.front().file;
    }
    if (open_.size() == kMost) open_.pop_back();  // a reader that still uses the file keeps it open
    open_.push_front({shard, std::make_shared<const RegularFile>(paths_[shard])});
    return open_.front().file;
  }

 private:
  static constexpr std::size_t kMost = 64;
  struct Open {
    std::size_t shard;
    std::shared_ptr<const RegularFile> file;
  };
  const std::vector<fs::path>& paths_;
  mutable std::mutex mutex_;
  mutable std::list<Open> open_;
};

struct TarImage {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
};

/// A sample whose members are being read.
struct Pending {
  std::string key;
  std::optional<TarImage> image;
  std::int64_t label = -1;
  std::int64_t text_label = -1;  ///< label in a .txt, which may be a caption instead
  bool has_text = false;         ///< a .json or .txt, with or without a label
  std::string members;           ///< for messages: "a.jpg, a.json (keys: name)"

  void note(const std::string& member) {
    constexpr std::size_t kLongest = 200;
    if (members.size() < kLongest) members += (members.empty() ? "" : ", ") + member;
  }
};

/// Returns whether an operating system added the member to the archive, such as __MACOSX.
bool is_ignored_member(std::string_view name) {
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part != "." && part != ".." && is_ignored_name(part)) return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

std::string place_of(const std::string& folder) {
  return folder.empty() ? "outside of folders" : "in '" + folder + "'";
}

/// Labels for archives without label members: each folder is one person.
class FolderLabels {
 public:
  void add(const std::string& member, const TarImage& image) {
    const fs::path folder = fs::path(member).lexically_normal().parent_path();
    const auto place = folders_.try_emplace(folder.string(), folders_.size()).first;
    images_.push_back({image, place->second});
  }
  [[nodiscard]] bool has_people() const { return folders_.size() > 1; }

  /// Assigns labels to folders in the byte order of their names. Throws InputError if the folders
  /// do not have the same parent folder.
  void give(const fs::path& origin, std::vector<TarImage>& images,
            std::vector<std::int64_t>& labels, IdentityNames& names) const {
    std::vector<std::int64_t> label_of(folders_.size());
    const fs::path first = folders_.begin()->first;
    for (const auto& [name, place] : folders_) {
      const fs::path folder = name;
      if (folder.empty() || folder.parent_path() != first.parent_path()) {
        throw InputError(fmt::format(
            "{}: no image has a label, and images are {} and {}; expected {}, or a folder for each "
            "person, all of them in the same folder",
            origin.string(), place_of(first.string()),
            place_of(folder.empty() ? folders_.rbegin()->first : name), kExpectedMembers));
      }
      label_of[place] = names.size();
      names.append(folder.filename().string());
    }
    for (const auto& [image, folder] : images_) {
      images.push_back(image);
      labels.push_back(label_of[folder]);
    }
  }

 private:
  struct Image {
    TarImage image;
    std::size_t folder = 0;
  };
  std::map<std::string, std::size_t> folders_;
  std::vector<Image> images_;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

/// Returns the label, or -1 if there is none; in that case sets `why` to the reason.
std::int64_t label_in_json(const std::string& text, std::string& why) {
  const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    why = "not a JSON object";
    return -1;
  }
  for (const char* key : {"label", "cls", "class"}) {
    const auto found = object.find(key);
    if (found == object.end()) continue;
    const std::string label = found->is_string() ? found->get<std::string>() : found->dump();
    const std::int64_t number = parse_label(trimmed(label));
    if (number < 0) why = fmt::format("{} {}, expected a number >= 0", key, label.substr(0, 40));
    return number;
  }
  why = "its keys:";
  constexpr std::size_t kLongest = 100;
  for (const auto& [key, value] : object.items()) {
    if (why.size() < kLongest) why += " " + key;
  }
  return -1;
}

/// Returns "shard-" and 41 for "shard-000041.tar"; nullopt if there is no number.
std::optional<std::pair<std::string, std::int64_t>> numbered_shard(const fs::path& shard) {
  const std::string stem = fs::path(name_before_staging(shard)).stem().string();
  const std::size_t digits = stem.find_last_not_of("0123456789") + 1;  // 0: only digits
  const std::int64_t number = parse_label(std::string_view(stem).substr(digits));
  if (number < 0) return std::nullopt;
  return std::pair{(shard.parent_path() / stem.substr(0, digits)).string(), number};
}

using ByNumber = std::map<std::int64_t, fs::path>;

/// Warns about gaps in the numbers of shards with the same name prefix. If more numbers are
/// missing than present, they may be dates, and there is no warning.
void warn_of_gaps(const ByNumber& shards, std::vector<std::string>& warnings) {
  const std::int64_t numbers = shards.rbegin()->first - shards.begin()->first + 1;
  if (numbers > 2 * std::ssize(shards)) return;
  for (auto last = shards.begin(), next = std::next(last); next != shards.end(); ++last, ++next) {
    const std::int64_t missing = next->first - last->first - 1;
    if (missing == 0) continue;
    warnings.push_back(fmt::format("{}: the next shard is {}: {} between them {} missing",
                                   last->second.string(), next->second.filename().string(),
                                   counted(missing, "shard"), missing == 1 ? "is" : "are"));
  }
}

void warn_of_gaps(const std::vector<fs::path>& shards, std::vector<std::string>& warnings) {
  std::map<std::string, ByNumber> groups;
  for (const fs::path& shard : shards) {
    if (const auto name = numbered_shard(shard)) groups[name->first].emplace(name->second, shard);
  }
  for (const auto& [beginning, group] : groups) warn_of_gaps(group, warnings);
}

class TarDataset final : public Dataset {
 public:
  TarDataset(const std::vector<fs::path>& shards, const DatasetOptions& options)
      : paths_(shards), shards_(paths_), origin_(options.rec) {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (options.doing) {
        options.doing(fmt::format("reading the headers of {}: shard {} of {}", paths_[i].string(),
                                  i + 1, paths_.size()));
      }
      read_headers(i);
    }
    if (ignored_ > 0) {
      info_.warnings.push_back(fmt::format("{}: left out {} in hidden folders, @eaDir or __MACOSX",
                                           origin_.string(), counted(ignored_, "image")));
    }
    const bool in_folders = folders_ && folders_->has_people();
    if (in_folders) {
      folders_->give(origin_, images_, labels_, names_);
    } else {
      tell_what_is_left_out();
    }
    folders_.reset();
    images_.shrink_to_fit();
    labels_.shrink_to_fit();
    warn_of_gaps(paths_, info_.warnings);
    info_.layout = counted(static_cast<long long>(paths_.size()), "WebDataset shard") +
                   (in_folders ? ", a folder for each person" : "");
    info_.images = static_cast<std::int64_t>(images_.size());
    info_.classes = count_classes(labels_, options, origin_.string());
    if (!in_folders) {
      names_ = read_identity_names(paths_.front().parent_path() / "identities.txt", info_.classes);
    }
    info_.index_bytes = images_.capacity() * sizeof(TarImage) +
                        labels_.capacity() * sizeof(std::int64_t) + names_.bytes();
    warn_of_classes(info_, *std::ranges::min_element(labels_), origin_.string());
    const ImageSize size = options.image_size != 0
                               ? ImageSize{options.image_size, options.image_size}
                               : first_image_size(*this);
    info_.height = size.height;
    info_.width = size.width;
  }

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  std::int64_t label(std::int64_t image, ImageBuffer&) const override {
    return labels_.at(static_cast<std::size_t>(image));
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override { return names_.at(label); }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    const TarImage& at = images_.at(static_cast<std::size_t>(image));
    return fmt::format("{}: member at offset {}", paths_[at.shard].string(), at.offset);
  }

  [[nodiscard]] Extent extent(std::int64_t image) const override {
    const TarImage& at = images_.at(static_cast<std::size_t>(image));
    try {
      return {shards_.get(at.shard), at.offset, at.bytes};
    } catch (const InputError& e) {
      throw DamagedImage(name(image) + ": " + e.what());
    }
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    return {.encoded = stored.all(), .label = labels_[static_cast<std::size_t>(image)]};
  }

  [[nodiscard]] std::vector<FileBrief> briefs() const override {
    Sha256 sum;
    sum.update(std::as_bytes(std::span(images_)));
    sum.update(std::as_bytes(std::span(labels_)));
    return {
        {paths_.size() == 1 ? paths_.front() : origin_,
         fmt::format("{} images of {} classes, {} x {} pixels, {} bytes in {} shards, sha256 of "
                     "their places and labels {}",
                     info_.images, info_.classes, info_.height, info_.width, bytes_, paths_.size(),
                     sum.finish().substr(0, 16))}};
  }

 private:
  void read_headers(std::size_t shard);
  void take(const TarReader& reader, const TarMember& member, std::size_t shard, Pending& sample);
  void take_label(const TarReader& reader, const TarMember& member, std::size_t shard,
                  Pending& sample) const;
  void finish(const Pending& sample);
  void tell_what_is_left_out();

  const std::vector<fs::path> paths_;
  const OpenShards shards_;
  const fs::path origin_;
  std::vector<TarImage> images_;
  std::vector<std::int64_t> labels_;
  IdentityNames names_;
  std::optional<FolderLabels> folders_{std::in_place};  ///< reset when a label or a text is found
  std::uint64_t bytes_ = 0;                             ///< size of all shards
  std::int64_t incomplete_ = 0;                         ///< number of incomplete samples
  std::string first_incomplete_;                        ///< members of the first incomplete sample
  std::int64_t further_ = 0;                            ///< number of extra images in samples
  std::int64_t ignored_ = 0;                            ///< images in hidden folders
  DatasetInfo info_;
};

void TarDataset::read_headers(std::size_t shard) {
  const RegularFile file(paths_[shard]);
  bytes_ += file.bytes();
  TarReader reader(file);
  Pending sample;
  while (const auto member = reader.next()) {
    if (!member->file) continue;
    if (is_ignored_member(member->name)) {
      if (is_image_name(member->name)) ++ignored_;
      continue;
    }
    const std::size_t folder = member->name.rfind('/') + 1;  // 0: not in a folder
    const std::string key = member->name.substr(0, member->name.find('.', folder));
    if (key != sample.key) {
      finish(sample);
      sample = {.key = key, .image = {}, .members = {}};
    }
    take(reader, *member, shard, sample);
  }
  finish(sample);
  if (!reader.has_end()) {
    info_.warnings.push_back(file.path().string() +
                             ": has no block of zeros at its end, so it may be truncated: compare "
                             "it with its source");
  }
  if (const std::uint64_t behind = reader.bytes_behind_end(); behind > 0) {
    info_.warnings.push_back(fmt::format(
        "{}: {} after the end of the archive (a block of zeros) are not read; do not join archives "
        "with cat, but give each as a separate file",
        file.path().string(), counted(static_cast<long long>(behind), "byte")));
  }
}

void TarDataset::take(const TarReader& reader, const TarMember& member, std::size_t shard,
                      Pending& sample) {
  sample.note(member.name);
  if (!is_image_name(member.name)) {
    take_label(reader, member, shard, sample);
    return;
  }
  if (member.bytes > kMaxImageBytes) {
    throw InputError(fmt::format("{}: {}: an image of {} bytes, more than {}",
                                 paths_[shard].string(), member.name, member.bytes,
                                 kMaxImageBytes));
  }
  const TarImage image{member.offset, static_cast<std::uint32_t>(member.bytes),
                       static_cast<std::uint32_t>(shard)};
  if (folders_) folders_->add(member.name, image);
  if (sample.image) {  // only the first image is used
    ++further_;
  } else {
    sample.image = image;
  }
}

void TarDataset::take_label(const TarReader& reader, const TarMember& member, std::size_t shard,
                            Pending& sample) const {
  constexpr std::size_t kLongestNumber = 64, kLongestJson = 1 << 20;
  const std::string ending = lower_case_ending(member.name);
  const bool json = ending == ".json", caption = ending == ".txt";
  if (!json && !caption && ending != ".cls" && ending != ".class" && ending != ".index") return;
  sample.has_text = sample.has_text || json || caption;
  const std::string text = reader.text(member, json ? kLongestJson : kLongestNumber);
  if (json) {
    std::string why;
    const std::int64_t label = label_in_json(text, why);
    if (label >= 0) sample.label = label;
    if (!why.empty()) sample.members += " (" + why + ")";
    return;
  }
  const std::int64_t label = parse_label(trimmed(text));
  if (caption) {
    sample.text_label = label;
  } else if (label >= 0) {
    sample.label = label;
  } else {
    throw InputError(fmt::format("{}: {}: found '{}', expected a label, an integer from 0",
                                 paths_[shard].string(), member.name, trimmed(text).substr(0, 40)));
  }
}

void TarDataset::finish(const Pending& sample) {
  if (sample.key.empty()) return;
  const std::int64_t label = sample.label >= 0 ? sample.label : sample.text_label;
  if (label >= 0 || (sample.image && sample.has_text)) folders_.reset();
  if (!sample.image || label < 0) {
    if (incomplete_++ == 0) first_incomplete_ = sample.members;
    return;
  }
  images_.push_back(*sample.image);
  labels_.push_back(label);
}

void TarDataset::tell_what_is_left_out() {
  if (further_ > 0) {
    info_.warnings.push_back(
        fmt::format("{}: left out {}, because only the first image of a sample is used",
                    origin_.string(), counted(further_, "image")));
  }
  if (incomplete_ == 0) return;
  if (images_.empty()) {
    throw InputError(
        fmt::format("{}: none of {} has an image and a label; the first one is {}; expected {}",
                    origin_.string(), counted(incomplete_, "sample"), one_line(first_incomplete_),
                    kExpectedMembers));
  }
  info_.warnings.push_back(
      fmt::format("{}: left out {} without an image or without a label; the first one is {}",
                  origin_.string(), counted(incomplete_, "sample"), one_line(first_incomplete_)));
}

}  // namespace

std::unique_ptr<Dataset> open_tar_dataset(const std::vector<fs::path>& shards,
                                          const DatasetOptions& options) {
  return std::make_unique<TarDataset>(shards, options);
}

}  // namespace pfc
