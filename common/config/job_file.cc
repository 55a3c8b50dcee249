// Reading a job file: bounded JSON, errors with line and column, and `--set` overrides.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/error.h"

namespace pfc {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestFile = 1 << 20;
constexpr int kDeepest = 16;

std::string read_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path.string() + ": this is a folder; expected a job file (JSON)");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string() + ": cannot open this job file; check the path");
  std::string text(kLargestFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw InputError(path.string() + ": cannot read this job file");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kLargestFile) {
    throw InputError(path.string() + ": larger than 1 MiB; expected a job file (JSON)");
  }
  return text;
}

/// "3:14" for the byte-th character, counted from 1.
std::string line_and_column(const std::string& text, std::size_t byte) {
  const std::size_t end = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const auto first = text.begin(), last = text.begin() + static_cast<std::ptrdiff_t>(end);
  const auto line = std::count(first, last, '\n') + 1;
  const std::size_t newline = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = newline == std::string::npos ? end + 1 : end - newline;
  return std::to_string(line) + ":" + std::to_string(column);
}

/// nlohmann's explanation without its number and position; one line.
std::string explanation(const json::exception& e) {
  std::string what = e.what();
  for (const std::string_view mark : {"column ", "] "}) {
    const std::size_t at = what.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t start = mark == "] " ? at + mark.size() : what.find(": ", at) + 2;
    what.erase(0, start);
    break;
  }
  std::replace(what.begin(), what.end(), '\n', ' ');
  return what;
}

/// Strict JSON: no key twice in an object, at most kDeepest levels.
json parse_strict(const std::string& text, const std::string& origin) {
  std::vector<std::set<std::string>> open_objects;
  const auto inspect = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepest) throw InputError(origin + ": nested too deeply for a job");
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) {
        throw InputError(origin + ": key \"" + key + "\" is given twice");
      }
    }
    return true;
  };
  try {
    return json::parse(text, inspect);
  } catch (const json::parse_error& e) {
    throw InputError(origin + ":" + line_and_column(text, e.byte) +
                     ": not valid JSON: " + explanation(e));
  } catch (const json::exception& e) {  // a number out of range carries no position
    throw InputError(origin + ": not valid JSON: " + explanation(e));
  }
}

/// The value as JSON, or else as a plain string, so that `--set network=r50` needs no quotes.
json parse_value(const std::string& text, const std::string& origin) {
  return json::accept(text) ? parse_strict(text, origin) : json(text);
}

void apply_override(json& job, const std::string& override_text) {
  const std::string origin = "--set " + override_text;
  const std::size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(origin + ": expected key=value, for example --set batch_size=64");
  }
  const std::string path = override_text.substr(0, equals);
  check_known_key(path.substr(0, path.find('.')), job_keys(), origin);
  json* place = &job;
  std::size_t start = 0;
  for (std::size_t dot; (dot = path.find('.', start)) != std::string::npos; start = dot + 1) {
    place = &(*place)[path.substr(start, dot - start)];
    if (place->is_null()) *place = json::object();
    if (!place->is_object()) {
      throw InputError(origin + ": \"" + path.substr(0, dot) +
                       "\" is no object in this job; set it as a whole");
    }
  }
  (*place)[path.substr(start)] = parse_value(override_text.substr(equals + 1), origin);
}

}  // namespace

void apply_overrides(json& job, std::span<const std::string> overrides) {
  for (const std::string& override_text : overrides) apply_override(job, override_text);
}

json read_job_file(const std::filesystem::path& path, std::span<const std::string> overrides) {
  json job = parse_strict(read_text(path), path.string());
  if (!job.is_object()) {
    throw InputError(path.string() + ": expected a JSON object { \"key\": value, ... }, found " +
                     job.type_name());
  }
  apply_overrides(job, overrides);
  return job;
}

}  // namespace pfc
