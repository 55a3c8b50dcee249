#include "pfcctl/data/pack/unpack.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/fd.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/files/write_all.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "data/records/writing/part_file.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 200;  // bytes; file systems allow 255

std::string with_digits(std::int64_t number, std::int64_t greatest) {
  return fmt::format("{:0{}}", number, std::to_string(greatest).size());
}

/// Returns the name as a file name: invalid characters become _. Empty only for an empty name.
std::string file_name(const std::string& name) {
  std::string made;
  for (const char c : name.substr(0, kLongestName)) {
    const auto byte = static_cast<unsigned char>(c);
    made += c == '/' || c == '\\' || byte < 0x20 || byte == 0x7f ? '_' : c;
  }
  return made.starts_with('.') ? "_" + made : made;
}

/// Returns whether a reader would take a folder of this name for a data set or for the images of a
/// list, and not for a person (data/layouts/layout.h).
bool is_reserved(const std::string& folder) {
  return folder == "images" || folder == "identities.txt" || folder == "property" ||
         folder == "data.mdb" || folder.starts_with("train.") || folder.ends_with(".tar");
}

/// Returns the folder of each label.
std::vector<std::string> folders_of(const Dataset& dataset) {
  const std::int64_t classes = dataset.info().classes;
  std::vector<std::string> folders;
  std::set<std::string> used;
  for (std::int64_t c = 0; c < classes; ++c) {
    std::string folder = file_name(dataset.identity(c));
    if (folder.empty() || is_reserved(folder) || used.contains(folder)) {
      folder = with_digits(c, classes - 1);
    }
    while (!used.insert(folder).second) folder += "_";
    folders.push_back(std::move(folder));
  }
  return folders;
}

const char* ending_of(const std::string& format) {
  if (format == "PNG") return ".png";
  return format == "WebP" ? ".webp" : ".jpg";
}

[[noreturn]] void throw_is_there(const fs::path& file) {
  throw InputError(
      file.string() +
      ": already exists with other content; choose another folder, or move the file away");
}

/// The file of an image, or the image's damage.
struct WrittenImage {
  std::string path;
  std::int64_t label = 0;
  std::optional<std::string> damage;
};

/// Writes the image files. Thread-safe.
class ImageFiles {
 public:
  ImageFiles(const Dataset& dataset, fs::path out)
      : dataset_(dataset), out_(std::move(out)), folders_(folders_of(dataset)) {}

  void make_folders() const {
    as_storage_error([&] {
      for (const std::string& folder : folders_) fs::create_directories(out_ / folder);
    });
  }

  /// Throws InputError if an image or the names would replace a file with other content.
  void expect_nothing_to_replace() const {
    const fs::path names = out_ / "identities.txt";
    if (something_at(names)) throw_is_there(names);
    as_storage_error([&] {
      for (const std::string& folder : folders_) expect_nothing_to_replace(folder);
    });
  }

  /// Writes identities.txt unless `names` is empty. Throws InputError if another one exists.
  void write_names(const std::string& names) const {
    const fs::path file = out_ / "identities.txt";
    if (has(file, std::as_bytes(std::span(names)))) return;  // written by an earlier run
    if (something_at(file)) throw_is_there(file);
    if (!names.empty()) write_file_atomically(file, names);
  }

  [[nodiscard]] WrittenImage write(std::int64_t image) const {
    thread_local ImageBuffer storage;
    try {
      const Sample sample = dataset_.read(image, storage);
      const std::string path = path_of(image, sample);
      put(out_ / path, sample.encoded);
      return {.path = path, .label = sample.label, .damage = {}};
    } catch (const DamagedImage& e) {
      return {.path = {}, .label = 0, .damage = named_damage(dataset_.name(image), e)};
    }
  }

 private:
  /// Returns the path below `out`. Throws DamagedImage.
  [[nodiscard]] std::string path_of(std::int64_t image, const Sample& sample) const {
    thread_local ImageDecoder decoder;
    (void)decoder.size(sample.encoded);
    return folders_[static_cast<std::size_t>(sample.label)] + "/" +
           with_digits(image + 1, dataset_.info().images) +
           ending_of(decoder.format(sample.encoded));
  }
  void expect_nothing_to_replace(const std::string& folder) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(out_ / folder, none)) {
      InterruptGuard::expect_none();
      const auto image = image_of(entry.path().filename().string());
      if (image && would_replace(*image, entry.path())) throw_is_there(entry.path());
    }
  }
  /// Returns the image whose file may have this name.
  [[nodiscard]] std::optional<std::int64_t> image_of(const std::string& name) const {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec != std::errc{} || *parsed.ptr != '.') return std::nullopt;
    if (number < 1 || number > dataset_.info().images) return std::nullopt;
    return number - 1;
  }
  [[nodiscard]] bool would_replace(std::int64_t image, const fs::path& file) const {
    ImageBuffer storage;
    try {
      const Sample sample = dataset_.read(image, storage);
      return out_ / path_of(image, sample) == file && !has(file, sample.encoded);
    } catch (const DamagedImage&) {
      return false;  // reported when the image is processed
    }
  }
  /// Compares the bytes too, because the earlier run may have had other data.
  static bool has(const fs::path& path, std::span<const std::byte> bytes) {
    struct stat there {};
    if (::lstat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode) ||
        there.st_size != static_cast<off_t>(bytes.size())) {
      return false;
    }
    thread_local std::vector<std::byte> found;
    found.resize(bytes.size());
    return RegularFile(path).read(found) == bytes.size() && std::ranges::equal(found, bytes);
  }
  static void put(const fs::path& path, std::span<const std::byte> bytes) {
    if (has(path, bytes)) return;  // written by an earlier run
    // A power cut may have left the earlier run's file empty.
    std::error_code none;
    const bool is_empty =
        fs::is_regular_file(fs::symlink_status(path)) && fs::file_size(path, none) == 0;
    if (something_at(path) && !is_empty) throw_is_there(path);
    const fs::path part = path.string() + ".part";
    Fd fd = open_to_write(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    int error = fd >= 0 && write_all(fd, text) ? 0 : errno;
    if (fd >= 0 && ::close(fd.release()) != 0 && error == 0) error = errno;
    if (error != 0) {
      throw StorageError(part.string() + ": cannot write: " + file_error_text(error));
    }
    as_storage_error([&] { fs::rename(part, path); });
  }

  const Dataset& dataset_;
  const fs::path out_;
  const std::vector<std::string> folders_;
};

}  // namespace

Unpacked unpack_dataset(const UnpackOptions& options, const ShowProgress& progress) {
  const auto dataset = open_dataset({.rec = options.in, .doing = end_at_interrupt});
  expect_labelled_images(*dataset, "unpack");
  const std::int64_t images = dataset->info().images;
  const fs::path list_file = options.out / "train.lst";
  check_classes(dataset->info(), options.in);
  prepare_folder(options.in, options.out, /*replace=*/true);
  if (something_at(list_file)) {
    throw InputError(list_file.string() + ": already exists; choose another folder");
  }
  const auto allowed = allowed_of(images, options.max_damaged);
  const ImageFiles files(*dataset, options.out);
  // If train.lst.part exists, an earlier run was interrupted and left files; put() checks each one.
  if (!something_at(list_file.string() + ".part")) files.expect_nothing_to_replace();
  PartFile list(list_file);
  list.keep(0);
  files.make_folders();
  Unpacked result{.images = 0, .classes = dataset->info().classes, .damaged = {}};
  std::int64_t greatest = -1;  // largest label in the list
  ordered_work<WrittenImage>(
      images, options.threads, [&](std::int64_t i) { return files.write(i); },
      [&](std::int64_t i, const WrittenImage& image) {
        if (image.damage) {
          result.damaged.push_back(*image.damage);
          expect_few_damaged(std::ssize(result.damaged), images, allowed, result.damaged.front());
        } else {
          greatest = std::max(greatest, image.label);
          list.write(fmt::format("{}\t{}\t{}\n", result.images++, image.label, image.path));
        }
        if (progress) progress(i + 1, images);
      });
  files.write_names(names_of_people(*dataset, greatest));
  list.commit();
  sync_folder(options.out);
  return result;
}

void add_data_unpack(CLI::App& data) {
  const auto o = std::make_shared<UnpackOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand("unpack", "Converts any data set to folders of image files");
  add_data_set(*verb, o->in);
  verb->add_option("--out", o->out, "Output folder for one folder per person, and train.lst")
      ->required();
  add_threads(*verb, o->threads);
  add_max_damaged(*verb, o->max_damaged);
  verb->footer(
      "Images keep their bytes. After Ctrl-C, the same command continues. Example:\n"
      "  pfcctl data unpack /data/faces --out photographs");
  verb->callback([o] {
    const TimePoint start = Clock::now();
    const Unpacked unpacked = unpack_dataset(*o, Progress("unpacking", "images").as_function());
    tell_written(o->out, unpacked.images, unpacked.classes, unpacked.damaged, start);
  });
}

}  // namespace pfc
