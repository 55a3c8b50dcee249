#include "common/config/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "common/byte_size.h"
#include "common/config/json_reader.h"
#include "common/error.h"
#include "common/one_line.h"

namespace pfc {
namespace {

using nlohmann::json;

/// Returns "LINE:COLUMN" of the byte-th character; bytes count from 1.
std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::size_t end = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t newline = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
  const std::size_t column = newline == std::string_view::npos ? end + 1 : end - newline;
  return std::to_string(line + 1) + ":" + std::to_string(column);
}

/// Returns the number in the library's message "number overflow parsing '1e999'".
std::string number_in_message(const std::string& what) {
  constexpr std::size_t kLongest = 60;
  const std::size_t first = what.find('\'');
  const std::size_t last = what.rfind('\'');
  if (first == std::string::npos || last <= first) return "a larger number";
  const std::string number = what.substr(first + 1, last - first - 1);
  return number.size() > kLongest ? number.substr(0, kLongest) + "..." : number;
}

/// Checks the limits while JSON is parsed, so that parsing stops at the first violation.
class Inspection {
 public:
  Inspection(const std::string& origin, int depth) : origin_(origin), depth_(depth) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth > depth_) {
      throw InputError(origin_ + ": found arrays and objects nested more than " +
                       std::to_string(depth_) + " deep; expected at most " +
                       std::to_string(depth_));
    }
    if (event == json::parse_event_t::object_start) open_objects_.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects_.pop_back();
    if (event == json::parse_event_t::key) see_key(value.get_ref<const std::string&>());
    return true;
  }

  /// Returns the key whose value is being read: "lr: ". Empty outside of objects.
  [[nodiscard]] std::string where() const { return key_.empty() ? "" : one_line(key_) + ": "; }

 private:
  void see_key(const std::string& key) {
    if (!open_objects_.back().insert(key).second) {
      throw InputError(origin_ + ": key " + brief(json(key)) + " is given twice");
    }
    key_ = key.substr(0, 60);
  }

  const std::string& origin_;
  const int depth_;
  std::vector<std::set<std::string>> open_objects_;
  std::string key_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& origin, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw InputError(origin + ": " + byte_size_text(text.size()) + " of JSON, expected at most " +
                     byte_size_text(limits.bytes));
  }
  Inspection inspection(origin, limits.depth);
  try {
    return json::parse(text, [&](int depth, json::parse_event_t event, json& value) {
      return inspection(depth, event, value);
    });
  } catch (const json::parse_error& e) {
    throw InputError(origin + ":" + line_and_column(text, e.byte) +
                     ": not valid JSON: " + problem_of(e));
  } catch (const json::exception& e) {  // a number out of range; it has no position
    throw InputError(origin + ": " + inspection.where() +
                     "expected a number of at most 1.7e308 in size, found " +
                     number_in_message(e.what()));
  }
}

}  // namespace pfc
