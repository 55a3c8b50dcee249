#include "common/config/json_reader.h"

#include <linux/limits.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/config/nearest.h"
#include "common/error.h"
#include "common/one_line.h"

namespace pfc {

namespace {

/// Returns whether the value is a string without a NUL, at which system calls would cut it.
bool is_text(const nlohmann::json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
}

bool is_path(const nlohmann::json& value) {
  return is_text(value) && value.get_ref<const std::string&>().size() < PATH_MAX;
}

/// Returns our equivalent of a key of another program; empty if it is unknown.
std::string_view key_for(std::string_view foreign) {
  constexpr std::string_view kMultistep =
      "\"lr_schedule\": {\"name\": \"multistep\", \"epochs\": [10, 18], \"gamma\": 0.1}";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kForeign{{
      {"decay_epoch", kMultistep},  // arcface_torch before 2022
      {"decay_epochs", kMultistep},
      {"decay_step", kMultistep},
      {"lr_decay_epochs", kMultistep},
      {"lr_func", kMultistep},  // arcface_torch of 2021
      {"lr_milestones", kMultistep},
      {"lr_steps", kMultistep},  // ArcFace for MXNet
      {"milestones", kMultistep},
  }};
  const auto* const found =
      std::ranges::find(kForeign, foreign, &std::pair<std::string_view, std::string_view>::first);
  return found == kForeign.end() ? std::string_view{} : found->second;
}

}  // namespace

void check_known_key(const std::string& key, std::span<const std::string> known,
                     const std::string& origin) {
  if (std::find(known.begin(), known.end(), key) != known.end()) return;
  const std::string unknown = origin + ": unknown key " + brief(nlohmann::json(key));
  if (const std::string_view instead = key_for(key); !instead.empty()) {
    throw InputError(unknown + "; expected " + std::string(instead) + ", counted in epochs");
  }
  const std::string nearest = nearest_word(key, known);
  throw InputError(unknown + (nearest.empty() ? "; docs/configuration.md lists all keys"
                                              : "; did you mean \"" + nearest + "\"?"));
}

std::string problem_of(const nlohmann::json::exception& error) {
  std::string what = error.what();
  for (const std::string_view mark : {"column ", "] "}) {
    const std::size_t at = what.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t start = mark == "] " ? at + mark.size() : what.find(": ", at) + 2;
    what.erase(0, start);
    break;
  }
  return one_line(what);
}

std::string brief(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

std::string shown(const nlohmann::json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  return brief(value) + " (" + value.type_name() + ")";
}

void JsonReader::flag(const std::string& key, bool& out) const {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) fail(key, *value, "true or false");
  out = value->get<bool>();
}

void JsonReader::text(const std::string& key, std::string& out) const {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) fail(key, *value, "a string");
  out = value->get<std::string>();
}

void JsonReader::path(const std::string& key, std::filesystem::path& out) const {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!is_path(*value)) fail(key, *value, "a path (at most 4095 bytes, without NUL)");
  out = value->get<std::string>();
}

void JsonReader::texts(const std::string& key, std::vector<std::string>& out) const {
  const json* value = find(key);
  if (value == nullptr) return;
  const std::string_view expected = "an array of strings, for example [\"val\"]";
  if (!value->is_array()) fail(key, *value, expected);
  out.clear();
  for (const json& item : *value) {
    if (!is_text(item)) fail(key, item, expected);
    out.push_back(item.get<std::string>());
  }
}

void JsonReader::paths(const std::string& key, std::vector<std::filesystem::path>& out) const {
  const json* value = find(key);
  if (value == nullptr) return;
  out.clear();
  if (is_path(*value)) {
    if (!value->get_ref<const std::string&>().empty()) out.emplace_back(value->get<std::string>());
    return;
  }
  const std::string_view expected = "a path (at most 4095 bytes, without NUL), or an array of them";
  if (!value->is_array()) fail(key, *value, expected);
  for (const json& item : *value) {
    if (!is_path(item)) fail(key, item, expected);
    out.emplace_back(item.get<std::string>());
  }
}

void JsonReader::numbers(const std::string& key, std::vector<std::int64_t>& out,
                         const NumberRange& range) const {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) fail(key, *value, "an array of integers, for example [85742, 10572]");
  out.clear();
  for (const json& item : *value) {
    const bool fits = item.is_number_integer() && range.has(item.get<double>());
    if (!fits) fail(key, item, range.text);
    out.push_back(item.get<std::int64_t>());
  }
}

void JsonReader::check_keys(std::span<const std::string> known) const {
  for (const auto& item : object_.items()) {
    check_known_key(item.key(), known, origin_of(item.key()));
  }
}

std::int64_t required_integer(const nlohmann::json& object, const std::string& key,
                              std::int64_t low, std::int64_t high, const std::string& origin) {
  const std::string expected =
      low == high ? std::to_string(low)
                  : "an integer of " + std::to_string(low) + " .. " + std::to_string(high);
  const NumberRange range{.low = static_cast<double>(low),
                          .high = static_cast<double>(high),
                          .high_open = false,
                          .text = expected};
  const JsonReader reader(object, origin);
  std::int64_t number = low - 1;
  reader.number(key, number, range);
  if (number < low) reader.fail(key, nullptr, expected);
  return number;
}

void JsonReader::number(const std::string& key, double& out, const NumberRange& range) const {
  if (const json* value = find(key)) out = real(key, *value, range);
}

void JsonReader::fail(const std::string& key, const json& found, std::string_view expected) const {
  throw InputError(origin_of(key) + ": " + key + ": expected " + std::string(expected) +
                   ", found " + shown(found));
}

std::string JsonReader::origin_of(const std::string&) const { return origin_; }

const nlohmann::json* JsonReader::find(const std::string& key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

double JsonReader::real(const std::string& key, const json& value, const NumberRange& range) const {
  if (!value.is_number() || !range.has(value.get<double>())) fail(key, value, range.text);
  const double number = value.get<double>();
  const double size = std::abs(number);
  if (size != 0 && (size < FLT_MIN || size > FLT_MAX)) {
    fail(key, value, std::string(range.text) + ", in the range of float32 (1.2e-38 to 3.4e38)");
  }
  return number;
}

}  // namespace pfc
