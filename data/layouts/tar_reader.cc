#include "data/layouts/tar_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace pfc {

namespace {

// Offsets in a header block (POSIX.1-1988, ustar).
constexpr std::size_t kName = 0, kNameSize = 100;
constexpr std::size_t kSize = 124, kSizeSize = 12;
constexpr std::size_t kSum = 148, kSumSize = 8;
constexpr std::size_t kType = 156;
constexpr std::size_t kMagicOffset = 257;
constexpr std::size_t kPrefixOffset = 345, kPrefixSize = 155;

constexpr std::uint64_t kLongestHeader = 1 << 16;
constexpr std::size_t kLongestName = 4096;

std::uint64_t padded_to_block(std::uint64_t bytes) { return (bytes + 511) / 512 * 512; }

/// Returns the field up to a NUL or its end.
template <std::size_t n>
std::string_view field(const std::array<char, n>& header, std::size_t at, std::size_t size) {
  const std::string_view whole(header.data() + at, size);
  return whole.substr(0, whole.find('\0'));
}

}  // namespace

void TarReader::fail(const std::string& what) const { fail(offset_, what); }

void TarReader::fail(std::uint64_t offset, const std::string& what) const {
  throw InputError(fmt::format("{}: offset {}: {}", archive_.path().string(), offset, what));
}

void TarReader::read(std::uint64_t offset, std::span<char> to) const {
  const std::size_t done = archive_.read_at(offset, std::as_writable_bytes(to));
  if (done < to.size()) {
    fail(offset + done,
         "the archive ends or is unreadable here: it is truncated or damaged; copy it again");
  }
}

std::uint64_t TarReader::number(const Header& header, std::size_t at, std::size_t size) const {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(header.data() + at);
  std::uint64_t value = 0;
  if ((bytes[0] & 0x80) != 0) {  // GNU: base 256, in two's complement
    if (bytes[0] != 0x80) fail("a number in the header is negative or too large");
    for (std::size_t i = 1; i < size; ++i) {
      if (value >> 55 != 0) fail("a number in the header is too large");
      value = value << 8 | bytes[i];
    }
    return value;
  }
  std::string_view text = field(header, at, size);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (!text.empty() && (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size())) {
    fail("a header whose numbers are not octal: this is not a tar archive, or it is damaged");
  }
  return value;
}

void TarReader::check_sum(const Header& header) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool of_sum = i >= kSum && i < kSum + kSumSize;
    sum += of_sum ? ' ' : static_cast<unsigned char>(header[i]);
  }
  const std::uint64_t said = number(header, kSum, kSumSize);
  if (said == sum) return;
  fail(
      fmt::format("a header whose bytes add up to {}, but whose checksum is {}: this is not a tar "
                  "archive, or it is damaged",
                  sum, said));
}

void TarReader::take_pax(const std::string& records) {
  std::string_view rest = records;
  while (!rest.empty() && rest.front() != '\0') {  // "LENGTH KEY=VALUE\n"
    std::size_t length = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(parsed.ptr - rest.data());
    if (parsed.ec != std::errc{} || length > rest.size() || length < digits + 3) {
      fail("an extended header that is damaged");
    }
    if (rest[digits] != ' ' || rest[length - 1] != '\n') {
      fail("an extended header that is damaged");
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) fail("an extended header that is damaged");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") long_name_ = value;
    if (key == "size") {
      std::uint64_t size = 0;
      const auto number = std::from_chars(value.data(), value.data() + value.size(), size);
      if (number.ec != std::errc{} || number.ptr != value.data() + value.size()) {
        fail("an extended header whose size is not a number");
      }
      long_size_ = size;
    }
    if (key.starts_with("GNU.sparse")) fail("a sparse member; make the archive without --sparse");
  }
}

std::optional<TarMember> TarReader::next() {
  Header header{};
  while (next_header(header)) {
    const std::uint64_t content = offset_ + kBlock;
    const char type = header[kType];
    const bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const std::uint64_t bytes =
        !extended && long_size_ ? *long_size_ : number(header, kSize, kSizeSize);
    if (bytes > archive_.bytes() - content) {
      fail(fmt::format(
          "a member of {} bytes, but the archive ends after {}: it is truncated; copy it again",
          bytes, archive_.bytes() - content));
    }
    const std::uint64_t behind = std::min(content + padded_to_block(bytes), archive_.bytes());
    if (!extended) {
      if (type == 'S') fail("a sparse member; make the archive without --sparse");
      TarMember member{.name = name_of_member(header),
                       .offset = content,
                       .bytes = bytes,
                       .file = type == '0' || type == '\0' || type == '7'};
      offset_ = behind;
      return member;
    }
    take_extended(type, content, bytes);
    offset_ = behind;
  }
  return std::nullopt;
}

bool TarReader::next_header(Header& header) {
  if (offset_ == archive_.bytes()) return false;
  if (offset_ == 0) expect_uncompressed();
  if (archive_.bytes() - offset_ < kBlock)
    fail("an incomplete block: the archive is truncated; copy it again");
  read(offset_, header);
  has_end_ = std::ranges::all_of(header, [](char c) { return c == '\0'; });
  if (has_end_) {
    look_behind_end();
    return false;
  }
  check_sum(header);
  return true;
}

void TarReader::expect_uncompressed() const {
  struct Compression {
    const char *name, *command;
    std::size_t at;
    std::string_view magic;
  };
  // For bzip2: the bytes after "BZh" and a digit, because a member name could start with "BZh".
  static constexpr std::array<Compression, 4> kCompressions{
      {{"gzip", "gunzip", 0, "\x1f\x8b"},
       {"zstd", "unzstd", 0, "\x28\xb5\x2f\xfd"},
       {"xz", "unxz", 0,
        "\xfd"
        "7zXZ"},
       {"bzip2", "bunzip2", 4, "1AY&SY"}}};
  std::array<char, 16> begin{};
  (void)archive_.read_at(0, std::as_writable_bytes(std::span(begin)));
  for (const Compression& each : kCompressions) {
    if (std::string_view(begin.data(), begin.size()).substr(each.at).starts_with(each.magic)) {
      fail(fmt::format("it is compressed with {}: decompress it first, for example with {}",
                       each.name, each.command));
    }
  }
}

void TarReader::look_behind_end() {
  constexpr std::uint64_t kMost = 1 << 20;  // no tar program pads an archive with more
  const std::uint64_t behind = offset_ + kBlock;
  std::vector<char> bytes(std::min(kMost, archive_.bytes() - behind));
  read(behind, bytes);
  const auto found = std::ranges::find_if(bytes, [](char c) { return c != '\0'; });
  if (found == bytes.end()) return;
  const auto zeros = static_cast<std::uint64_t>(found - bytes.begin());
  bytes_behind_end_ = archive_.bytes() - behind - zeros / kBlock * kBlock;
}

void TarReader::take_extended(char type, std::uint64_t content, std::uint64_t bytes) {
  if (bytes > kLongestHeader) fail(fmt::format("an extended header of {} bytes", bytes));
  std::string records(bytes, '\0');
  read(content, records);
  if (type == 'x') take_pax(records);
  if (type == 'L') long_name_ = records.substr(0, records.find('\0'));
}

std::string TarReader::name_of_member(const Header& header) {
  std::string name;
  if (long_name_) {
    name = *long_name_;
  } else {
    const bool ustar =
        field(header, kMagicOffset, 5) == "ustar" && header[kMagicOffset + 5] == '\0';
    const auto prefix = ustar ? field(header, kPrefixOffset, kPrefixSize) : std::string_view{};
    if (!prefix.empty()) name = std::string(prefix) + '/';
    name += field(header, kName, kNameSize);
  }
  if (name.size() > kLongestName) {
    fail(fmt::format("a member whose name is longer than {} bytes", kLongestName));
  }
  long_name_.reset();
  long_size_.reset();
  return name;
}

std::string TarReader::text(const TarMember& member, std::size_t most) const {
  std::string content(std::min<std::uint64_t>(member.bytes, most), '\0');
  read(member.offset, content);
  return content;
}

}  // namespace pfc
