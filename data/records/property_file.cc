#include "data/records/property_file.h"

#include <charconv>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "data/text_lines.h"

namespace pfc {

namespace {

/// Removes one integer and the separator after it from the text.
bool take_number(std::string_view& text, std::int64_t& value) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() &&
         std::string_view(" \t\r\n").find(text.front()) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  return true;
}

bool take_comma(std::string_view& text) {
  if (text.empty() || text.front() != ',') return false;
  text.remove_prefix(1);
  return true;
}

bool is_side(std::int64_t n) { return n >= 1 && n <= kMaxImageSide; }

}  // namespace

std::optional<Property> read_property(const std::filesystem::path& path) {
  if (!something_at(path)) return std::nullopt;
  constexpr std::size_t kLongest = 256;
  std::string text;
  read_lines(path, {}, [&](std::string_view line, std::int64_t) {
    if (text.size() <= kLongest) text += std::string(line) + '\n';
  });
  Property p;
  std::string_view rest = text;
  const bool whole = take_number(rest, p.classes) && take_comma(rest) &&
                     take_number(rest, p.height) && take_comma(rest) &&
                     take_number(rest, p.width) && rest.empty();
  if (!whole || p.classes < 1 || !is_side(p.height) || !is_side(p.width)) {
    const std::string found = text.substr(0, text.find('\n')).substr(0, 60);
    throw InputError(path.string() + ": found '" + found +
                     "', expected classes,height,width (for example 93431,112,112; sides 1 .. " +
                     std::to_string(kMaxImageSide) + ")");
  }
  return p;
}

void write_property(const std::filesystem::path& path, const Property& property) {
  write_file_atomically(path, std::to_string(property.classes) + ',' +
                                  std::to_string(property.height) + ',' +
                                  std::to_string(property.width) + '\n');
}

}  // namespace pfc
