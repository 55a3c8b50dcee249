// Reads typed values from user-written JSON and rejects everything else.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pfc {

/// The allowed range of a number. `text` describes it in errors: "a number above 0".
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = true;
  std::string_view text;

  [[nodiscard]] bool has(double x) const {
    return (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high);
  }
};

/// The allowed words of a key, with the value of each.
template <class Value, std::size_t n>
using Names = std::array<std::pair<std::string_view, Value>, n>;

/// Reader of one object, which it does not own. A missing or null key leaves `out` unchanged. A
/// wrong type or value throws InputError: the origin, the key, what was expected and found.
class JsonReader {
 public:
  using json = nlohmann::json;

  JsonReader(const json& object, std::string origin)
      : object_(object), origin_(std::move(origin)) {}
  virtual ~JsonReader() = default;
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  void flag(const std::string& key, bool& out) const;
  void number(const std::string& key, double& out, const NumberRange& range) const;

  template <class Integer>
  void number(const std::string& key, Integer& out, const NumberRange& range) const {
    const json* value = find(key);
    if (value == nullptr) return;
    const bool fits =
        value->is_number_unsigned()
            ? std::in_range<Integer>(value->get<std::uint64_t>())
            : value->is_number_integer() && std::in_range<Integer>(value->get<std::int64_t>());
    if (!fits || !range.has(value->get<double>())) fail(key, *value, range.text);
    out = value->get<Integer>();
  }

  template <class Value, class Named, std::size_t n>
  void choice(const std::string& key, Value& out, const Names<Named, n>& names) const {
    const json* value = find(key);
    if (value == nullptr) return;
    std::string expected;
    for (const auto& [name, meaning] : names) {
      if (value->is_string() && value->get_ref<const std::string&>() == name) {
        out = Value(meaning);
        return;
      }
      const bool last = name == names.back().first;
      expected += (expected.empty() ? ""
                   : last           ? " or "
                                    : ", ") +
                  ("\"" + std::string(name) + "\"");
    }
    fail(key, *value, expected);
  }

  void text(const std::string& key, std::string& out) const;
  void path(const std::string& key, std::filesystem::path& out) const;
  void texts(const std::string& key, std::vector<std::string>& out) const;
  /// One path or an array of paths. An empty string means no path.
  void paths(const std::string& key, std::vector<std::filesystem::path>& out) const;
  /// An array of integers.
  void numbers(const std::string& key, std::vector<std::int64_t>& out,
               const NumberRange& range) const;

  /// Throws InputError for a key that is not in `known`; the error suggests the nearest known key.
  void check_keys(std::span<const std::string> known) const;

  [[noreturn]] void fail(const std::string& key, const json& found,
                         std::string_view expected) const;

 protected:
  [[nodiscard]] const json* find(const std::string& key) const;  ///< nullptr if missing or null
  /// Returns the number in `value`, the value of `key`. Rejects numbers that do not fit in
  /// float32, which the kernels use: a learning rate of 1e-50 would become 0.
  [[nodiscard]] double real(const std::string& key, const json& value,
                            const NumberRange& range) const;
  /// Returns the start of an error message about the key.
  [[nodiscard]] virtual std::string origin_of(const std::string& key) const;

 private:
  const json& object_;
  std::string origin_;
};

/// Returns an integer of low .. high that the object must have. Throws InputError like JsonReader.
std::int64_t required_integer(const nlohmann::json& object, const std::string& key,
                              std::int64_t low, std::int64_t high, const std::string& origin);

/// Throws InputError if `key` is not in `known`; the error suggests the nearest known key.
void check_known_key(const std::string& key, std::span<const std::string> known,
                     const std::string& origin);

/// Returns a value as one line, for errors: `"128" (string)`, `1.5 (number)`, `an array of 3`.
std::string shown(const nlohmann::json& value);

/// Returns the problem in one line, without the library's error number and position.
std::string problem_of(const nlohmann::json::exception& error);

/// Returns a value's JSON on one line, shortened if it is long.
std::string brief(const nlohmann::json& value);

}  // namespace pfc
