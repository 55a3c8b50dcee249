#include "pfcctl/data/writing.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "common/version.h"
#include "data/layouts/layout.h"
#include "data/records/property_file.h"

namespace pfc {

namespace fs = std::filesystem;

std::string description(const char* verb, const Dataset& dataset, const nlohmann::json& options) {
  nlohmann::json source = nlohmann::json::array();
  for (const FileBrief& brief : dataset.briefs()) source.push_back({brief.file, brief.holds});
  return nlohmann::json{
      {"verb", verb}, {"version", version()}, {"source", source}, {"options", options}}
      .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string note_text(std::int64_t place, const std::string& what) {
  return std::to_string(place) + '\t' + one_line(what);
}

NumberedNotes numbered_notes(const std::vector<std::string>& notes) {
  NumberedNotes numbered;
  for (const std::string& note : notes) {
    const std::size_t tab = note.find('\t');
    std::int64_t place = -1;
    const auto parsed = std::from_chars(note.data(), note.data() + note.size(), place);
    if (tab == std::string::npos || parsed.ec != std::errc() || place < 0) continue;
    numbered[place] = note.substr(tab + 1);
  }
  return numbered;
}

std::vector<std::string> values(const NumberedNotes& notes) {
  std::vector<std::string> all;
  for (const auto& [place, what] : notes) all.push_back(what);
  return all;
}

std::int64_t first_open_place(std::int64_t kept, NumberedNotes& notes) {
  std::int64_t place = kept;
  auto note = notes.begin();
  for (; note != notes.end() && note->first <= place; ++note) ++place;
  notes.erase(note, notes.end());
  return place;
}

namespace {

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

/// Converts names to lines of a file, all different: equal lines would merge two people.
class NameLines {
 public:
  /// Borrows `dataset`.
  NameLines(const Dataset& dataset, std::int64_t greatest)
      : dataset_(dataset), greatest_(greatest) {}

  std::string line(std::string name) {
    if (std::ranges::none_of(name, is_line_end)) return name;
    if (used_.empty()) use_names_that_stay();
    std::ranges::replace_if(name, is_line_end, '_');
    while (!used_.insert(name).second) name += '_';
    return name;
  }

 private:
  void use_names_that_stay() {
    for (std::int64_t label = 0; label <= greatest_; ++label) {
      std::string name = dataset_.identity(label);
      if (std::ranges::none_of(name, is_line_end)) used_.insert(std::move(name));
    }
  }

  const Dataset& dataset_;
  const std::int64_t greatest_;
  std::set<std::string> used_;  ///< empty until a name has to be changed
};

}  // namespace

std::string names_of_people(const Dataset& dataset, std::int64_t greatest) {
  std::string names;
  NameLines lines(dataset, greatest);
  for (std::int64_t label = 0; label <= greatest; ++label) {
    const std::string name = lines.line(dataset.identity(label));
    if (name.empty()) return {};
    names += name + '\n';
  }
  return names;
}

void write_companions(const Dataset& dataset, const fs::path& folder) {
  const DatasetInfo& info = dataset.info();
  as_storage_error([&] { fs::remove(folder / "train.rec"); });
  write_property(folder / "property", {info.classes, info.height, info.width});
  const fs::path file = folder / "identities.txt";
  const std::string names = names_of_people(dataset, info.classes - 1);
  if (names.empty()) {
    as_storage_error([&] { fs::remove(file); });
  } else {
    write_file_atomically(file, names);
  }
}

void expect_images(const Dataset& dataset, const std::string& verb) {
  if (dataset.info().embedding_size == 0) return;
  throw InputError(
      fmt::format("{}: found embeddings, but pfcctl data {} is for images; use the embeddings as "
                  "they are: a job reads them in random order, and can read several sets together",
                  dataset.briefs().front().file.string(), verb));
}

void expect_labelled_images(const Dataset& dataset, const std::string& verb) {
  expect_images(dataset, verb);
  expect_one_label(dataset, "pfcctl data " + verb);
}

std::string named_damage(const std::string& name, const DamagedImage& error) {
  const std::string what = error.what();
  return what.starts_with(name) ? what : name + ": " + what;
}

std::int64_t allowed_of(std::int64_t images, double part) {
  return static_cast<std::int64_t>(part * static_cast<double>(images));
}

void expect_few_damaged(std::int64_t damaged, std::int64_t images, std::int64_t allowed,
                        const std::string& first) {
  if (damaged <= allowed) return;
  throw InputError(fmt::format(
      "{} of {} images are damaged, more than the {} of --max-damaged. The first one: {}", damaged,
      images, allowed, first));
}

void tell_damaged(const std::vector<std::string>& damaged) {
  constexpr std::size_t kNamed = 5;
  for (std::size_t i = 0; i < std::min(kNamed, damaged.size()); ++i) {
    std::fprintf(stderr, "skipped: %s\n", one_line(damaged[i]).c_str());
  }
}

void tell_written(const fs::path& where, std::int64_t images, std::int64_t classes,
                  const std::vector<std::string>& damaged, TimePoint start, bool decoded) {
  tell_damaged(damaged);
  std::printf("%s: %lld images of %lld identities, %zu %s skipped (%.1f s)\n", where.c_str(),
              static_cast<long long>(images), static_cast<long long>(classes), damaged.size(),
              decoded ? "damaged ones" : "with a damaged header", seconds_since(start));
  if (!decoded) std::printf("images were not decoded; pfcctl data validate finds damaged ones\n");
}

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  constexpr std::size_t kLookedAt = 256;  // images between two checks for an interrupt
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.info().images), -1);
  ImageBuffer storage;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i % kLookedAt == 0) InterruptGuard::expect_none();
    try {
      labels[i] = dataset.label(static_cast<std::int64_t>(i), storage);
    } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): reported when it is processed
    }
  }
  return labels;
}

void check_classes(const DatasetInfo& info, const fs::path& in) {
  constexpr std::int64_t kMostEmpty = 1'000'000;
  if (info.classes <= std::max(info.images, kMostEmpty)) return;
  throw InputError(fmt::format("{}: found {} classes, but only {} images; check the labels",
                               in.string(), info.classes, info.images));
}

void check_image_size(const DatasetInfo& info, const fs::path& in) {
  if (std::max(info.height, info.width) <= kMaxImageSide) return;
  throw InputError(
      fmt::format("{}: found images of {} x {} (height x width), expected at most {}; resize them "
                  "with pfcctl data pack --size",
                  in.string(), info.height, info.width, kMaxImageSide));
}

std::optional<fs::path> way_within(const fs::path& folder, const fs::path& path) {
  // weakly_canonical() leaves a relative path relative if it does not exist, so make the paths
  // absolute first.
  std::error_code error;
  const fs::path way = fs::weakly_canonical(fs::absolute(path), error)
                           .lexically_relative(fs::weakly_canonical(fs::absolute(folder), error));
  if (way.empty() || *way.begin() == "..") return std::nullopt;
  return way;
}

void prepare_folder(const fs::path& in, const fs::path& out, bool replace) {
  std::error_code error;
  // If `in` is a pattern such as part-{000..041}.rec, uses its first file.
  const fs::path first = something_at(in) ? in : expand_braces(in).front();
  const fs::path itself = fs::weakly_canonical(first, error),
                 target = fs::weakly_canonical(out, error);
  if (itself == target || (fs::is_regular_file(itself, error) && itself.parent_path() == target)) {
    throw InputError(out.string() + ": --out is the data set itself; choose another folder");
  }
  if (find_layout(in).layout == Layout::kFolder && way_within(in, out)) {
    throw InputError(out.string() + ": --out is inside the data set; choose another folder");
  }
  fs::create_directories(out, error);
  if (error)
    throw StorageError(out.string() +
                       ": cannot create this folder: " + file_error_text(error.value()));
  // An interrupted run may have written other files of the set, but has no train.rec yet.
  const bool was_interrupted =
      something_at(out / "train.rec.begun.part") && !something_at(out / "train.rec");
  if (replace || was_interrupted) return;
  for (const char* name : {"train.rec", "train.idx", "property", "identities.txt"}) {
    if (!something_at(out / name)) continue;
    throw InputError((out / name).string() +
                     ": already exists; choose another folder, or replace it with --force");
  }
}

}  // namespace pfc
