#include "data/layouts/layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/layouts/synthetic_dataset.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected a folder with train.rec, train.lst, train.tsv, data.mdb, *.tar, label.txt and "
    "images, or one folder of images for each person; or a .rec, .lst, .tsv, .txt, .tar, .mdb or "
    ".lmdb file; or embeddings in a .safetensors or .npy file";

Location file_location(const fs::path& file) {
  const std::string ending = lower_case_ending(file);
  if (ending == ".lst") return {Layout::kList, {file}};
  if (ending == ".tsv" || ending == ".txt") return {Layout::kTsv, {file}};
  if (ending == ".tar") return {Layout::kTar, {file}};
  if (ending == ".mdb" || ending == ".lmdb") return {Layout::kLmdb, {file}};
  if (ending == ".safetensors") return {Layout::kSafetensors, {file}};
  if (ending == ".npy") return {Layout::kNpy, {file}};
  return {Layout::kRecordIO, {file}};  // its reader reports any other file
}

/// Expands a name with {000..041}.
Location pattern_location(const fs::path& pattern) {
  const std::string ending = lower_case_ending(pattern);
  if (ending == ".rec") return {Layout::kRecordIO, expand_braces(pattern)};
  if (ending == ".tar") return {Layout::kTar, expand_braces(pattern)};
  throw InputError(
      fmt::format("{}: not found; only names of .rec and .tar files may have a range in braces",
                  pattern.string()));
}

/// Returns N of train-N.rec or train_N.rec; -1 for any other name.
std::int64_t number_of_rec(const std::string& name) {
  constexpr std::string_view kBegin = "train", kEnd = ".rec";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return -1;
  const std::string_view middle =
      std::string_view(name).substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  if (middle.size() < 2 || (middle[0] != '-' && middle[0] != '_')) return -1;
  std::int64_t number = -1;
  const auto parsed = std::from_chars(middle.data() + 1, middle.data() + middle.size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == middle.data() + middle.size();
  return whole && number >= 0 ? number : -1;
}

using NumberedFiles = std::map<std::int64_t, fs::path>;

/// Rejects a gap in the numbers. Otherwise training would silently leave out the images of a
/// missing file.
Location numbered_recs(const NumberedFiles& recs, const fs::path& folder) {
  Location found{Layout::kRecordIO, {}};
  std::int64_t next = recs.begin()->first;
  for (const auto& [number, path] : recs) {
    if (number != next) {
      throw InputError(fmt::format(
          "{}: found {} and {}, but none between them: add the missing files, "
          "or give a range of files as rec, such as part-{{000..041}}.rec",
          folder.string(), found.paths.back().filename().string(), path.filename().string()));
    }
    ++next;
    found.paths.push_back(path);
  }
  return found;
}

struct Contents {
  NumberedFiles recs;
  std::vector<fs::path> tars;
  std::vector<std::string> names;  ///< a few names, for errors
  bool has_folders = false;
};

Contents look_into(const fs::path& folder) {
  constexpr std::size_t kNamed = 5;
  Contents found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      found.has_folders = true;
    } else if (lower_case_ending(entry->path()) == ".tar") {
      found.tars.push_back(entry->path());
    }
    const std::int64_t number = number_of_rec(entry->path().filename().string());
    if (number >= 0 && !found.recs.emplace(number, entry->path()).second) {
      throw InputError(fmt::format("{}: found {} and {}, which have the same number",
                                   folder.string(), found.recs[number].filename().string(),
                                   entry->path().filename().string()));
    }
    if (found.names.size() < kNamed) found.names.push_back(entry->path().filename().string());
  }
  if (error) {
    throw InputError(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
  }
  std::ranges::sort(found.tars);
  std::ranges::sort(found.names);
  return found;
}

/// Detects the files that `pfcctl data` leaves behind when it is interrupted while writing. For
/// example, a partly unpacked set has no train.lst yet, and would be read as a folder of people
/// with other labels.
void expect_whole(const fs::path& folder) {
  for (const char* name : {"train.lst.part", "train.rec.part"}) {
    if (!something_at(folder / name)) continue;
    throw InputError(
        fmt::format("{}: this data set is not finished; run the same pfcctl data command again to "
                    "continue it, or delete the folder",
                    (folder / name).string()));
  }
}

}  // namespace

std::string lower_case_ending(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return ending;
}

bool is_ignored_name(std::string_view name) {
  return name.starts_with('.') || name == "@eaDir" || name == "__MACOSX";
}

Location find_layout(const fs::path& rec) {
  if (rec.empty()) throw InputError("rec: not given; expected a folder with train.rec");
  if (rec == kSyntheticData) return {Layout::kSynthetic, {rec}};
  std::error_code ignored;
  if (!fs::is_directory(rec, ignored)) {
    if (something_at(rec)) return file_location(rec);
    if (rec.string().find('{') != std::string::npos) return pattern_location(rec);
    throw InputError(fmt::format("{}: not found; {}", rec.string(), kExpected));
  }
  for (const auto& [name, layout] : {std::pair{"train.rec", Layout::kRecordIO},
                                     {"train.lst", Layout::kList},
                                     {"train.tsv", Layout::kTsv},
                                     {"data.mdb", Layout::kLmdb},
                                     {"embeddings.safetensors", Layout::kSafetensors},
                                     {"embeddings.npy", Layout::kNpy}}) {
    if (something_at(rec / name)) return {layout, {rec / name}};
  }
  if (something_at(rec / "label.txt") && fs::is_directory(rec / "images", ignored)) {
    return {Layout::kTsv, {rec / "label.txt"}};
  }
  Contents found = look_into(rec);
  if (!found.recs.empty()) return numbered_recs(found.recs, rec);
  if (!found.tars.empty()) return {Layout::kTar, std::move(found.tars)};
  expect_whole(rec);
  if (found.has_folders) return {Layout::kFolder, {rec}};
  throw InputError(fmt::format(
      "{}: not found; {}{}", (rec / "train.rec").string(), kExpected,
      found.names.empty() ? " (the folder is empty)"
                          : fmt::format(" (found there: {})", fmt::join(found.names, ", "))));
}

std::vector<fs::path> expand_braces(const fs::path& pattern) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::string text = pattern.string();
  const std::size_t open = text.find('{');
  if (open == std::string::npos) return {pattern};
  const std::size_t dots = text.find("..", open), close = text.find('}', open);
  const auto fail = [&] [[noreturn]] {
    throw InputError(fmt::format(
        "{}: expected one range of numbers in braces, as in shard-{{000..041}}.tar", text));
  };
  if (dots == std::string::npos || close == std::string::npos || dots > close) fail();
  if (text.find('{', open + 1) != std::string::npos) fail();
  const auto number = [&](std::size_t begin, std::size_t end) {
    std::int64_t value = -1;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + end || value < 0) fail();
    return value;
  };
  const std::int64_t first = number(open + 1, dots), last = number(dots + 2, close);
  if (last < first || last - first >= kMost) fail();
  std::vector<fs::path> files;
  for (std::int64_t i = first; i <= last; ++i) {
    files.emplace_back(fmt::format("{}{:0{}}{}", text.substr(0, open), i, dots - open - 1,
                                   text.substr(close + 1)));
  }
  return files;
}

bool is_image_name(const fs::path& name) {
  constexpr std::array<std::string_view, 4> kEndings{".jpg", ".jpeg", ".png", ".webp"};
  return std::ranges::find(kEndings, lower_case_ending(name)) != kEndings.end();
}

}  // namespace pfc
