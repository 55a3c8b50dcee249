#include "data/text_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <string>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {

void read_lines(const std::filesystem::path& path, const Doing& doing,
                const std::function<void(std::string_view line, std::int64_t number)>& take) {
  constexpr std::uint64_t kLargestPiece = 1 << 20;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it first
  RegularFile file(path);
  // One byte more than a short file has, so that one short read shows its end.
  const auto piece = static_cast<std::size_t>(std::min(kLargestPiece, file.bytes() + 1));
  std::int64_t number = 0;
  const auto give = [&](std::string_view line) {
    ++number;
    if (line.size() > kLongestLine) {
      throw InputError(fmt::format("{}: line {}: longer than {} bytes: is this a text file?",
                                   path.string(), number, kLongestLine));
    }
    if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    take(line, number);
  };
  std::uint64_t done = 0;
  std::string text;  // the rest of a line, then the next piece of the file
  char end_of_line = '\n';
  for (bool more = true; more;) {
    const std::size_t kept = text.size();
    text.resize(kept + piece);
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(kept)));
    text.resize(kept + got);
    more = got == piece;
    if (done == 0) {
      if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
        throw InputError(path.string() + ": UTF-16 text; save it as UTF-8");
      }
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
    if (rest.size() > kLongestLine || (!more && !rest.empty())) give(rest);
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
