#include "worker/start/resumed_people.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/error.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Returns a path in a form that can be compared: a folder and its train.rec become the same path.
fs::path comparable(const std::string& text) {
  fs::path path = fs::path(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "train.rec" && path.has_parent_path()) path = path.parent_path();
  return path;
}

/// Reads a key whose value is a string or an array of strings.
std::vector<fs::path> paths_of(const json& job, const char* key) {
  const auto found = job.find(key);
  if (found == job.end()) return {};
  std::vector<fs::path> paths;
  for (const json& each : found->is_array() ? *found : json::array({*found})) {
    if (each.is_string()) paths.push_back(comparable(each.get<std::string>()));
  }
  return paths;
}

std::vector<fs::path> names_of(const std::vector<fs::path>& paths) {
  std::vector<fs::path> names;
  for (const fs::path& path : paths) names.push_back(path.filename());
  return names;
}

/// Returns the innermost folder that contains all paths.
fs::path folder_of(const std::vector<fs::path>& paths) {
  fs::path common = paths.front().parent_path();
  for (const fs::path& path : paths) {
    const auto differ = std::ranges::mismatch(common, path);
    fs::path shared;
    for (auto part = common.begin(); part != differ.in1; ++part) shared /= *part;
    common = shared;
  }
  return common;
}

/// Returns the paths relative to their common folder. That folder is another one if the data were
/// moved.
std::vector<fs::path> ways_to(const std::vector<fs::path>& paths) {
  if (paths.empty()) return {};
  const fs::path folder = folder_of(paths);
  std::vector<fs::path> ways;
  ways.reserve(paths.size());
  for (const fs::path& path : paths) ways.push_back(path.lexically_relative(folder));
  return ways;
}

/// Returns whether an entry that occurs once in each list is at another position.
bool has_moved(const std::vector<fs::path>& before, const std::vector<fs::path>& now) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].empty() || std::ranges::count(before, before[i]) != 1) continue;
    if (std::ranges::count(now, before[i]) != 1) continue;
    if (i >= now.size() || now[i] != before[i]) return true;
  }
  return false;
}

bool in_other_order(const std::vector<fs::path>& before, const std::vector<fs::path>& now) {
  return has_moved(before, now) || has_moved(ways_to(before), ways_to(now)) ||
         has_moved(names_of(before), names_of(now));
}

std::string job_value_text(const json& job, const char* key) {
  return job.at(key).dump(-1, ' ', true, json::error_handler_t::replace);
}

[[noreturn]] void refuse(const fs::path& checkpoint, const char* key, const json& before,
                         const json& now, std::string_view otherwise) {
  throw InputError(fmt::format(
      "{}: {} was trained with {}, and with {} its class centres would belong to other "
      "people: use the checkpoint's order, or {}",
      key, checkpoint.string(), job_value_text(before, key), job_value_text(now, key), otherwise));
}

/// Returns a warning; empty if `changes` is empty.
std::string other_data(const fs::path& checkpoint, const std::string& changes) {
  if (changes.empty()) return {};
  return fmt::format(
      "{} was trained on other data: {}; each class continues with the centre of the same number",
      checkpoint.string(), changes);
}

/// Returns whether identities are shared. If not, their names do not matter.
bool shares(const json& job) {
  const auto found = job.find("share_identities");
  return found != job.end() && *found == true;
}

/// Returns an empty array if there is one softmax over all classes.
json head_classes_of(const json& job) {
  const auto found = job.find("head_classes");
  return found != job.end() && found->is_array() ? *found : json::array();
}

}  // namespace

std::string compare_people(const fs::path& checkpoint, const json& before, const json& now,
                           std::string_view otherwise) {
  std::string others;
  const auto note = [&](const char* key) {
    others += fmt::format("{}{} {} became {}", others.empty() ? "" : ", ", key,
                          job_value_text(before, key), job_value_text(now, key));
  };
  const auto compare = [&](const char* key) {
    const std::vector<fs::path> old = paths_of(before, key), paths = paths_of(now, key);
    if (old.empty() || paths.empty() || old == paths) return;
    if (in_other_order(old, paths)) refuse(checkpoint, key, before, now, otherwise);
    if (names_of(old) != names_of(paths)) note(key);
  };
  compare("rec");
  if (shares(before) && shares(now)) compare("identities");
  const json old_heads = head_classes_of(before), heads = head_classes_of(now);
  if (!old_heads.empty() && !heads.empty() && old_heads != heads) {
    if (std::is_permutation(old_heads.begin(), old_heads.end(), heads.begin(), heads.end())) {
      refuse(checkpoint, "head_classes", before, now, otherwise);
    }
    note("head_classes");
  }
  return other_data(checkpoint, others);
}

std::string compare_data(const fs::path& checkpoint, const std::vector<std::string>& before,
                         const std::vector<std::string>& now) {
  if (before.empty() || before == now) return {};
  return other_data(checkpoint,
                    fmt::format("{} became {}", fmt::join(before, ", "), fmt::join(now, ", ")));
}

}  // namespace pfc
