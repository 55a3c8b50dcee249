// Makes text of another program safe to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pfc {

/// Converts text to one line of UTF-8 without control characters, so that it cannot forge an
/// output line, move a terminal's cursor, or change the text direction. Replaces each control
/// character by a space and each invalid byte by a question mark. Truncates text longer than
/// `longest` bytes.
std::string one_line(std::string_view text, std::size_t longest = 1'000);

/// Returns whether all of the text is valid UTF-8 (RFC 3629: no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

/// Returns indented JSON with a line end. Bytes that are not UTF-8 (file names may contain some)
/// become the replacement character. For nlohmann::json and ordered_json.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pfc
