#include "common/one_line.h"

#include <algorithm>

namespace pfc {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  ///< in bytes; 0 if the text does not start with a valid character
};

/// Decodes the first character. REQUIRES: the text is not empty.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {.code = lead, .length = 1};
  const std::size_t length = (lead & 0xE0) == 0xC0   ? 2
                             : (lead & 0xF0) == 0xE0 ? 3
                             : (lead & 0xF8) == 0xF0 ? 4
                                                     : 0;
  if (length == 0 || length > text.size()) return {};
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[length] || code > 0x10FFFF || surrogate) return {};
  return {.code = code, .length = length};
}

/// Returns whether a character ends a line, moves the cursor, or changes the text direction: C0,
/// DEL and C1 controls, line and paragraph separators, and Unicode's bidirectional controls (UAX
/// #9).
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool is_plain_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

std::string one_line(std::string_view text, std::size_t longest) {
  if (is_plain_ascii(text)) return std::string(text.substr(0, longest));
  std::string line;
  while (!text.empty() && line.size() < longest) {
    const Character c = first_of(text);
    line += c.length == 0 ? "?" : is_control(c.code) ? " " : text.substr(0, c.length);
    text.remove_prefix(std::max<std::size_t>(c.length, 1));
  }
  return line;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_of(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace pfc
