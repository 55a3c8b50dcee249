#include "data/layouts/file_dataset.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "data/identity_names.h"
#include "data/images/image_file.h"
#include "data/layouts/labels.h"
#include "data/layouts/layout.h"
#include "data/text_lines.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

struct OtherLabel {
  std::int64_t image, label;
};

/// Files and labels found by one of the readers below.
struct ImageFiles {
  fs::path root;                     ///< paths are relative to it
  fs::path origin;                   ///< where the paths come from: the folder or the list
  IdentityNames paths;               ///< one per image, contiguous in memory
  std::vector<std::int64_t> labels;  ///< [images]; if an image has several labels, the largest
  std::vector<OtherLabel> others;  ///< the other labels of images, sorted by image, then descending
  IdentityNames names;             ///< by label; empty: no names
  std::string layout;
  std::vector<std::string> warnings;
};

class FileDataset final : public Dataset {
 public:
  FileDataset(ImageFiles files, const DatasetOptions& options) : files_(std::move(files)) {
    info_.layout = files_.layout;
    info_.images = static_cast<std::int64_t>(files_.labels.size());
    info_.classes = count_classes(files_.labels, options, files_.origin.string());
    info_.warnings = std::move(files_.warnings);
    info_.index_bytes = files_.paths.bytes() + files_.names.bytes() +
                        files_.labels.capacity() * sizeof(std::int64_t) +
                        files_.others.capacity() * sizeof(OtherLabel);
    std::int64_t least = *std::ranges::min_element(files_.labels);
    for (const OtherLabel& other : files_.others) {
      least = std::min(least, other.label);
      info_.labels_per_image =
          std::max(info_.labels_per_image, 1 + std::ssize(others_of(other.image)));
    }
    warn_of_classes(info_, least, files_.origin.string());
    const ImageSize size = options.image_size != 0
                               ? ImageSize{options.image_size, options.image_size}
                               : first_image_size(*this);
    info_.height = size.height;
    info_.width = size.width;
  }

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  std::int64_t label(std::int64_t image, ImageBuffer&) const override {
    return files_.labels.at(static_cast<std::size_t>(image));
  }
  void other_labels(std::int64_t image, std::span<std::int64_t> others) const override {
    const auto own = others_of(image);
    const auto end = std::ranges::transform(own, others.begin(), &OtherLabel::label).out;
    std::fill(end, others.end(), std::int64_t{-1});
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return path_of(image).string();
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override {
    return files_.names.at(label);
  }

  [[nodiscard]] Extent extent(std::int64_t image) const override {
    return image_file(path_of(image));
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    return {.encoded = stored.all(), .label = files_.labels[static_cast<std::size_t>(image)]};
  }

  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  [[nodiscard]] fs::path path_of(std::int64_t image) const {
    return files_.root / files_.paths.at(image);
  }
  [[nodiscard]] std::span<const OtherLabel> others_of(std::int64_t image) const {
    const auto own = std::ranges::equal_range(files_.others, image, {}, &OtherLabel::image);
    return {own.begin(), own.end()};
  }

  ImageFiles files_;
  DatasetInfo info_;
};

/// Includes all names and labels and the sizes of a few files, because other data may have files of
/// the same sizes.
std::vector<FileBrief> FileDataset::briefs() const {
  constexpr std::int64_t kSizes = 64;
  Sha256 sum;
  for (std::int64_t i = 0; i < info_.images; ++i) {
    const std::string path = files_.paths.at(i);
    sum.update(std::as_bytes(std::span(path)));
    sum.update(std::as_bytes(std::span(&files_.labels[static_cast<std::size_t>(i)], 1)));
  }
  sum.update(std::as_bytes(std::span(files_.others)));
  const std::int64_t distance = std::max<std::int64_t>(info_.images / kSizes, 1);
  for (std::int64_t i = 0; i < info_.images; i += distance) {
    std::error_code missing;
    const std::uintmax_t bytes = fs::file_size(path_of(i), missing);
    const std::uint64_t size = missing ? 0 : bytes;
    sum.update(std::as_bytes(std::span(&size, 1)));
  }
  return {{files_.origin,
           fmt::format("{} images of {} classes, {} x {} pixels, sha256 of their names, labels and "
                       "some sizes {}",
                       info_.images, info_.classes, info_.height, info_.width,
                       sum.finish().substr(0, 16))}};
}

// A folder for each person.

struct LeftOut {
  std::int64_t files = 0, folders = 0;
  std::string names;  ///< names of the first files: "a/notes.txt, b/list.csv"

  void add_file(const fs::path& path, const fs::path& root) {
    constexpr std::int64_t kShown = 10;
    if (++files > kShown) return;
    names += (files == 1 ? "" : ", ") + path.lexically_relative(root).string();
  }
};

using FileId = std::pair<dev_t, ino_t>;

/// Finds the images in one person's folder. Visits each folder once, even if several links lead to
/// it: if folders contain links to each other, the number of paths is unlimited.
class PersonSearch {
 public:
  /// `left_out` is borrowed.
  PersonSearch(const fs::path& root, LeftOut& left_out) : root_(root), left_out_(left_out) {
    (void)is_new(root);  // ignore links back to the root, which contains all people
  }

  /// Adds the images below `folder`, relative to the root.
  void look_into(const fs::path& folder) {
    if (!is_new(folder)) return;
    // Visits folders before links to them, so that an image gets its real path as its name.
    std::vector<fs::path> folders, links;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      const fs::path& path = entry->path();
      if (is_ignored_name(path.filename().string())) {
        left_out_.add_file(path, root_);
      } else if (entry->is_directory(ignored)) {
        (entry->is_symlink(ignored) ? links : folders).push_back(path);
      } else if (is_image_name(path)) {
        images_.push_back(path.lexically_relative(root_).string());
      } else {
        left_out_.add_file(path, root_);
      }
    }
    if (error) {
      throw InputError(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
    }
    std::ranges::sort(links);  // makes the choice between links to the same folder deterministic
    for (const fs::path& path : folders) look_into(path);
    for (const fs::path& path : links) look_into(path);
  }

  /// Returns the images in ascending order.
  [[nodiscard]] std::vector<std::string> images() && {
    std::ranges::sort(images_);
    return std::move(images_);
  }

 private:
  [[nodiscard]] bool is_new(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0) {
      return seen_.emplace(status.st_dev, status.st_ino).second;
    }
    ++left_out_.folders;
    return false;
  }

  const fs::path& root_;
  LeftOut& left_out_;
  std::set<FileId> seen_;
  std::vector<std::string> images_;
};

std::vector<std::string> folders_in(const fs::path& root, LeftOut& left_out) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored) && !is_ignored_name(name)) {
      names.push_back(name);
    } else {
      left_out.add_file(entry->path(), root);
    }
  }
  if (error) {
    throw InputError(fmt::format("{}: cannot be listed: {}", root.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

/// Detects a root that is one level too high, for example one that contains `train` and `val`.
class FolderLevel {
 public:
  /// images: paths "PERSON/1.jpg" or "PERSON/FOLDER/1.jpg", sorted.
  void add(const std::string& person, const std::vector<std::string>& images) {
    if (seems_right_) return;
    std::set<std::string> folders;
    for (const std::string& image : images) {
      const std::string below = image.substr(person.size() + 1);
      const std::size_t slash = below.find('/');
      if (slash == std::string::npos) {
        seems_right_ = true;
      } else if (!seems_right_) {
        folders.insert(below.substr(0, slash));
      }
    }
    if (++people_ > kMostParts) seems_right_ = true;
    if (seems_right_) return;
    text_ += fmt::format("{}{}: {}", text_.empty() ? "" : ", ", person, folders.size());
    if (folders.size() > most_) {
      most_ = folders.size();
      fullest_ = person;
    }
  }

  void expect_right(const fs::path& root) const {
    if (seems_right_ || most_ < kFewestPeople) return;
    throw InputError(fmt::format(
        "{}: its sub-folders contain only folders ({}) and would count as {}; expected a folder of "
        "images for each person; did you mean {}? Otherwise list the images in a train.lst",
        root.string(), text_, people_ == 1 ? "1 person" : fmt::format("{} people", people_),
        (root / fullest_).string()));
  }

 private:
  static constexpr int kMostParts = 10;
  static constexpr std::size_t kFewestPeople = 10;

  bool seems_right_ = false;  ///< an image is in a person's folder, or there are many people
  std::int64_t people_ = 0;
  std::size_t most_ = 0;  ///< maximum number of sub-folders in a folder
  std::string fullest_, text_;
};

ImageFiles find_people(const DatasetOptions& options) {
  ImageFiles files{.root = options.rec,
                   .origin = options.rec,
                   .paths = {},
                   .labels = {},
                   .others = {},
                   .names = {},
                   .layout = "a folder for each person",
                   .warnings = {}};
  LeftOut left_out;
  FolderLevel level;
  const std::vector<std::string> people = folders_in(options.rec, left_out);
  for (std::size_t i = 0; i < people.size(); ++i) {
    if (options.doing && i % 64 == 0) {
      options.doing(
          fmt::format("listing {}: {} of {} folders", options.rec.string(), i, people.size()));
    }
    PersonSearch search(options.rec, left_out);
    search.look_into(options.rec / people[i]);
    const std::vector<std::string> images = std::move(search).images();
    if (images.empty()) {
      ++left_out.folders;
      continue;
    }
    level.add(people[i], images);
    for (const std::string& image : images) {
      files.paths.append(image);
      files.labels.push_back(files.names.size());
    }
    files.names.append(people[i]);
  }
  level.expect_right(options.rec);
  if (left_out.files > 0 || left_out.folders > 0) {
    files.warnings.push_back(fmt::format(
        "{}: left out {} whose names are not those of images (.jpg, .jpeg, .png, .webp){} and {} "
        "without images",
        options.rec.string(), counted(left_out.files, "file"),
        left_out.files == 0 ? "" : fmt::format(", for example {},", left_out.names),
        counted(left_out.folders, "folder")));
  }
  return files;
}

// Lists.

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

struct ListLine {
  std::string_view path = {};
  std::int64_t label = -1;                ///< -1: the line does not describe an image
  std::vector<std::int64_t> others = {};  ///< labels after the first
  bool may_be_heading = true;             ///< the label field is not a number
  std::string_view advice = {};
};

bool is_number(std::string_view text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec != std::errc::invalid_argument && parsed.ptr == text.data() + text.size();
}

ListLine parse_lst(std::string_view line) {
  const auto fields = split(line);
  if (fields.size() < 3) return {};
  if (!is_number(fields[1]) && is_image_name(fs::path(fields[1]))) {  // in the format of face2rec2
    if (fields[0] == "1") return {.path = fields[1], .label = parse_label(fields[2])};
    if (fields[0] != "0") return {.advice = "; the path and the label are in the wrong order"};
    return {.advice =
                "; flag 0 in a face2rec2 list marks an image that is not aligned; run \"pfcctl "
                "data align\" first"};
  }
  if (fields.size() > 3) {
    return {.advice = "; lists with several label columns are not supported"};
  }
  return {.path = fields[2], .label = parse_label(fields[1])};
}

std::string_view without_blanks_at_its_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// Also parses PLSC's label.txt, which may have a space instead of the tab.
ListLine parse_tsv(std::string_view line) {
  line = without_blanks_at_its_end(line);
  const auto fields = split(line);
  const std::size_t at = line.find_last_of(fields.size() == 1 ? ' ' : '\t');
  if (fields.size() > 2 || at == std::string_view::npos) {
    return {.may_be_heading = !is_image_name(fs::path(line))};
  }
  const std::string_view path = without_blanks_at_its_end(line.substr(0, at));
  const std::string_view label = line.substr(at + 1);
  const bool names_image = is_image_name(fs::path(path)) || is_image_name(fs::path(line));
  ListLine parsed{.path = path,
                  .label = parse_label(label),
                  .may_be_heading = !is_number(label) && !names_image};
  if (label.find(',') == label.npos) return parsed;
  const std::vector<std::int64_t> labels = parse_labels(label);
  if (labels.empty()) return parsed;
  parsed.label = labels.front();
  parsed.others.assign(labels.begin() + 1, labels.end());
  return parsed;
}

template <typename Parse>
ImageFiles read_list(const DatasetOptions& options, const char* expected, bool may_have_heading,
                     const Parse& parse) {
  std::error_code ignored;
  const fs::path folder = options.rec.parent_path();
  const fs::path images = folder / "images";
  ImageFiles files{.root = fs::is_directory(images, ignored) ? images : folder,
                   .origin = options.rec,
                   .paths = {},
                   .labels = {},
                   .others = {},
                   .names = {},
                   .layout = fmt::format("a list of images ({})", options.rec.extension().string()),
                   .warnings = {}};
  read_lines(options.rec, options.doing, [&](std::string_view line, std::int64_t number) {
    if (line.empty()) return;
    const ListLine parsed = parse(line);
    const bool usable = parsed.label >= 0 && !parsed.path.empty() &&
                        parsed.path.find('\0') == std::string_view::npos;
    if (usable) {
      const std::string path = with_slashes(parsed.path);
      // The list's folder may contain the images in `images`, as with PLSC.
      const bool first = files.labels.empty();
      if (first && !fs::exists(files.root / path, ignored) && fs::exists(folder / path, ignored)) {
        files.root = folder;
      }
      files.paths.append(path);
      for (const std::int64_t other : parsed.others) {
        files.others.push_back({std::ssize(files.labels), other});
      }
      files.labels.push_back(parsed.label);
      return;
    }
    if (number == 1 && may_have_heading && parsed.may_be_heading) return;
    throw InputError(fmt::format("{}: line {}: found '{}', expected {}{}", options.rec.string(),
                                 number, line.substr(0, 80), expected, parsed.advice));
  });
  files.names = read_identity_names(folder / "identities.txt",
                                    count_classes(files.labels, options, options.rec.string()));
  return files;
}

}  // namespace

std::unique_ptr<Dataset> open_folder_dataset(const DatasetOptions& options) {
  return std::make_unique<FileDataset>(find_people(options), options);
}

std::unique_ptr<Dataset> open_list_dataset(const DatasetOptions& options) {
  return std::make_unique<FileDataset>(
      read_list(options, "index, tab, label (an integer from 0), tab, path of an image", false,
                parse_lst),
      options);
}

std::unique_ptr<Dataset> open_tsv_dataset(const DatasetOptions& options) {
  return std::make_unique<FileDataset>(
      read_list(options,
                "path of an image, tab, label (an integer from 0, or several different ones "
                "separated by commas)",
                true, parse_tsv),
      options);
}

}  // namespace pfc
