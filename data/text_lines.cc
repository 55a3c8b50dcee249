#include "data/text_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {
namespace {

/// Converts UTF-16 to UTF-8 in pieces of any length. An unpaired surrogate becomes U+FFFD.
class Utf16 {
 public:
  explicit Utf16(bool big_endian) : big_endian_(big_endian) {}
  void append(std::string_view bytes, std::string& utf8) {
    for (const char c : bytes) {
      const std::uint32_t byte = static_cast<unsigned char>(c);
      if ((second_ = !second_)) {
        first_ = byte;
      } else {
        append_unit(big_endian_ ? first_ << 8 | byte : byte << 8 | first_, utf8);
      }
    }
  }

 private:
  void append_unit(std::uint32_t unit, std::string& utf8) {
    const bool low = unit >= 0xdc00 && unit < 0xe000;
    if (high_ != 0 && !low) append_code(0xfffd, utf8);
    const std::uint32_t high = std::exchange(high_, 0);
    if (unit >= 0xd800 && unit < 0xdc00) {
      high_ = unit;
    } else if (low) {
      append_code(high == 0 ? 0xfffd : 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00), utf8);
    } else {
      append_code(unit, utf8);
    }
  }
  static void append_code(std::uint32_t code, std::string& utf8) {
    const auto add = [&](std::uint32_t byte) { utf8.push_back(static_cast<char>(byte)); };
    const auto rest = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) return add(0xc0 | code >> 6), rest(0);
    if (code < 0x10000) return add(0xe0 | code >> 12), rest(6), rest(0);
    add(0xf0 | code >> 18), rest(12), rest(6), rest(0);
  }

  bool big_endian_, second_ = false;
  std::uint32_t first_ = 0;  ///< the first byte of a unit
  std::uint32_t high_ = 0;   ///< a high surrogate whose low one must follow; 0 if there is none
};

}  // namespace

void read_lines(const std::filesystem::path& path, const Doing& doing,
                const std::function<void(std::string_view line, std::int64_t number)>& take,
                std::size_t longest) {
  constexpr std::uint64_t kLargestPiece = 1 << 20;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors begin a file with it
  RegularFile file(path);
  // Asks for one byte more than a small file has, so that one read also shows where it ends.
  const auto piece = static_cast<std::size_t>(std::min(kLargestPiece, file.bytes() + 1));
  std::int64_t number = 0;
  const auto give = [&](std::string_view line) {
    ++number;
    if (line.size() > longest) {
      throw InputError(fmt::format("{}: line {}: longer than {} bytes: is this a text file?",
                                   path.string(), number, longest));
    }
    if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    take(line, number);
  };
  std::uint64_t done = 0;
  std::string text;  // the rest of a line, then the next piece of the file
  std::optional<Utf16> utf16;
  char end_of_line = '\n';
  for (bool more = true; more;) {
    const std::size_t kept = text.size();
    text.resize(kept + piece);
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(kept)));
    text.resize(kept + got);
    more = got == piece;
    const bool big_endian = text.starts_with("\xfe\xff");
    if (done == 0 && (big_endian || text.starts_with("\xff\xfe"))) utf16.emplace(big_endian);
    if (utf16) {
      const std::string read = text.substr(kept);
      text.resize(kept);
      utf16->append(read, text);
    }
    if (done == 0) {
      const bool no_line_feed = text.find('\n') == std::string::npos;
      if (no_line_feed && text.find('\r') != std::string::npos) end_of_line = '\r';
    }
    done += got;
    if (doing) doing(fmt::format("reading {}: {} MiB", path.string(), done >> 20));
    std::string_view rest = text;
    for (std::size_t end; (end = rest.find(end_of_line)) != std::string_view::npos;) {
      give(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() > longest || (!more && !rest.empty())) give(rest);
    text = std::string(rest);
  }
}

std::string with_slashes(std::string_view path) {
  std::string made(path);
  std::ranges::replace(made, '\\', '/');
  return made;
}

std::vector<std::string_view> fields_of(std::string_view line, std::string_view others) {
  const std::string_view separators = line.find('\t') != std::string_view::npos ? "\t" : others;
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t begin = line.find_first_not_of(separators);
    if (begin == std::string_view::npos) return fields;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(separators), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::string_view joined(std::span<const std::string_view> fields) {
  const std::string_view last = fields.back();
  return {fields.front().data(), last.data() + last.size()};
}

}  // namespace pfc
