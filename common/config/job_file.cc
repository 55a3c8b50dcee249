#include "common/config/job_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/config/arcface_torch_job.h"
#include "common/config/job_json.h"
#include "common/config/json_reader.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/one_line.h"

namespace pfc {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestFile = 1 << 20;

/// The path may be a pipe, as in `--config <(make_job)`.
std::string read_job_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty()) throw InputError("--config '': expected the path of a job file (JSON)");
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path.string() + ": this is a folder; expected a job file (JSON)");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw InputError(path.string() + ": cannot open this job file: " +
                     std::generic_category().message(errno) + "; check the path");
  }
  std::string text;
  std::array<char, 1 << 14> part{};
  do {
    in.read(part.data(), std::ssize(part));
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  } while (in && text.size() <= kLargestFile);
  if (in.bad()) throw InputError(path.string() + ": cannot read this job file");
  if (text.size() > kLargestFile) {
    throw InputError(path.string() + ": larger than 1 MiB; expected a job file (JSON)");
  }
  return text;
}

std::optional<std::string> read_base_beside(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path base = path.parent_path() / "base.py";
  if (!std::filesystem::exists(base, ignored)) return std::nullopt;
  if (!std::filesystem::is_regular_file(base, ignored)) {
    throw InputError(base.string() + ": not a regular file; expected arcface_torch's base.py");
  }
  return read_job_text(base);
}

/// Parses the value as JSON, or takes it as a plain string: `--set network=r50` needs no quotes.
json parse_value(const std::string& text, const std::string& origin) {
  try {
    (void)json::parse(text).is_null();
  } catch (const json::parse_error&) {
    return text;
  } catch (const json::exception&) {  // valid JSON whose number is too large; rejected below
  }
  return parse_strict_json(text, origin);
}

/// Returns every key that is allowed at the top level of a job file.
std::vector<std::string> top_level_keys() {
  std::vector<std::string> keys = job_keys();
  for (const ArcfaceTorchKey& each : arcface_torch_keys()) keys.emplace_back(each.key);
  return keys;
}

/// Returns the object that `--set key.part=value` changes. A missing key starts from its default.
/// A schedule or loss given only by its name becomes an object with that name.
json& object_at(json& job, const std::string& key, const std::string& origin) {
  json& place = job[key];
  const json standard = to_json(JobConfig{}).value(key, json());
  if (standard.is_object() && place.is_null()) place = {{"name", standard["name"]}};
  if (standard.is_object() && place.is_string()) place = {{"name", place}};
  if (!place.is_object()) {
    throw InputError(origin + ": \"" + key +
                     "\" is not an object; set its value as a whole: --set " + key + "=value");
  }
  return place;
}

void apply_override(json& job, const std::string& override_text) {
  const std::string origin = "--set " + (override_text.empty() ? "''" : override_text);
  if (!is_utf8(override_text)) throw InputError(origin + ": expected UTF-8");
  const std::size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(origin + ": expected key=value, for example --set batch_size=64");
  }
  const std::string path = override_text.substr(0, equals);
  const std::string key = path.substr(0, path.find('.'));
  check_known_key(key, top_level_keys(), origin);
  json value = parse_value(override_text.substr(equals + 1), origin);
  if (key == "precision") job.erase("fp16");  // older form of the same key
  if (key == path) {
    job[key] = std::move(value);
    return;
  }
  const std::string part = path.substr(key.size() + 1);
  json& object = object_at(job, key, origin);
  object[part] = std::move(value);
  if (part != "name" || !object[part].is_string()) return;
  for (const std::string& other : parameters_of_others(key, object[part].get<std::string>())) {
    object.erase(other);
  }
}

}  // namespace

void apply_overrides(json& job, std::span<const std::string> overrides) {
  for (const std::string& override_text : overrides) apply_override(job, override_text);
}

json read_job_file(const std::filesystem::path& path, std::span<const std::string> overrides) {
  const std::string text = read_job_text(path);
  json job = path.extension() == ".py"
                 ? arcface_torch_job(text, path, read_base_beside(path))
                 : parse_strict_json(text, path.string(), {.bytes = kLargestFile});
  if (!job.is_object()) {
    throw InputError(path.string() + ": expected a JSON object { \"key\": value, ... }, found " +
                     job.type_name());
  }
  apply_overrides(job, overrides);
  return job;
}

}  // namespace pfc
