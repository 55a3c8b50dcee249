#include "data/records/record_index.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "data/records/record_format.h"
#include "data/text_lines.h"

namespace pfc {

namespace {

class IndexParser {
 public:
  IndexParser(const std::filesystem::path& idx, const RecordReader& rec) : idx_(idx), rec_(rec) {}

  void line(std::string_view text, std::int64_t number) {
    line_ = number;
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty()) return;
    std::int64_t key = 0;
    std::uint64_t offset = 0;
    const char* const end = text.data() + text.size();
    auto parsed = std::from_chars(text.data(), end, key);
    const char* at = parsed.ptr;
    bool ok = parsed.ec == std::errc{} && at != end && (*at == '\t' || *at == ' ');
    while (at != end && (*at == '\t' || *at == ' ')) ++at;
    parsed = std::from_chars(at, end, offset);
    ok = ok && parsed.ec == std::errc{} && parsed.ptr == end && key >= 0;
    if (!ok) fail(text, "expected: key, tab, byte offset");
    if (offset % 4 != 0) fail(text, "expected an offset that is a multiple of 4");
    if (offset > rec_.bytes() || rec_.bytes() - offset < kPartHeaderBytes) {
      fail(text, fmt::format("which points past the end of {} ({} bytes): it is truncated, or the "
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
  IndexParser parser(idx, rec);
  read_lines(idx, doing,
             [&](std::string_view text, std::int64_t number) { parser.line(text, number); });
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
