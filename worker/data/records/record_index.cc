#include "worker/data/records/record_index.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "worker/data/records/record_format.h"

namespace pfc {

namespace {

constexpr std::size_t kChunk = 1 << 20;
constexpr std::size_t kMaxLine = 256;

/// Parses lines that arrive in pieces.
class IndexParser {
 public:
  IndexParser(const std::filesystem::path& idx, const RecordReader& rec) : idx_(idx), rec_(rec) {}

  void line(std::string_view text) {
    ++line_;
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
    if (text.empty()) return;
    std::int64_t key = 0;
    std::uint64_t offset = 0;
    const char* const end = text.data() + text.size();
    auto number = std::from_chars(text.data(), end, key);
    const char* at = number.ptr;
    bool ok = number.ec == std::errc{} && at != end && (*at == '\t' || *at == ' ');
    while (at != end && (*at == '\t' || *at == ' ')) ++at;
    number = std::from_chars(at, end, offset);
    ok = ok && number.ec == std::errc{} && number.ptr == end && key >= 0;
    if (!ok) fail(text, "expected: key, tab, byte offset");
    if (offset % 4 != 0) fail(text, "expected an offset that is a multiple of 4");
    if (offset > rec_.bytes() || rec_.bytes() - offset < kPartHeaderBytes) {
      fail(text, fmt::format("which points past the end of {} ({} bytes): it is cut short, or the "
                             "two files do not belong together",
                             rec_.path().string(), rec_.bytes()));
    }
    index.keys.push_back(key);
    index.offsets.push_back(offset);
  }

  [[noreturn]] void fail(std::string_view found, const std::string& expected) const {
    throw InputError(fmt::format("{}: line {}: found '{}', {}", idx_.string(), line_,
                                 found.substr(0, 60), expected));
  }

  RecordIndex index;

 private:
  const std::filesystem::path& idx_;
  const RecordReader& rec_;
  std::int64_t line_ = 0;
};

}  // namespace

RecordIndex read_record_index(const std::filesystem::path& idx, const RecordReader& rec,
                              const Doing& doing) {
  RegularFile file(idx);
  IndexParser parser(idx, rec);
  std::uint64_t done = 0;
  std::string text;  // the rest of a line, then the next piece of the file
  for (bool more = true; more;) {
    const std::size_t kept = text.size();
    text.resize(kept + kChunk);
    const std::size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(kept)));
    text.resize(kept + got);
    more = got == kChunk;
    done += got;
    if (doing) doing(fmt::format("reading {}: {} MiB", idx.string(), done >> 20));
    std::string_view rest = text;
    for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
      parser.line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() > kMaxLine) parser.fail(rest, "a line that does not end: this is no .idx file");
    if (!more) parser.line(rest);
    text = std::string(rest);
  }
  return std::move(parser.index);
}

RecordIndex scan_records(const RecordReader& rec, const Doing& doing) {
  RecordIndex index;
  index.offsets = rec.scan(doing);
  index.keys.resize(index.offsets.size());
  std::iota(index.keys.begin(), index.keys.end(), std::int64_t{0});
  return index;
}

}  // namespace pfc
