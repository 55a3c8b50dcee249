#include "model/files/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/named_tensors.h"

namespace pfc {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                        kLocatorBytes = 20;
constexpr std::uint64_t kMostComment = 0xffff;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the number is in the zip64 field

template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  check(at + sizeof(Number) <= bytes.size(), "zip: a number outside its header");
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// Returns the numbers of the zip64 field (id 1) in the extra fields; empty if there is none.
std::span<const std::byte> zip64_field(std::span<const std::byte> extra) {
  while (extra.size() >= 4) {
    const auto id = number_at<std::uint16_t>(extra, 0);
    const std::size_t size = number_at<std::uint16_t>(extra, 2);
    extra = extra.subspan(4);
    if (size > extra.size()) return {};
    if (id == 1) return extra.first(size);
    extra = extra.subspan(size);
  }
  return {};
}

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  read_directory(find_directory());
  check_places();
}

void ZipFile::fail(const std::string& what) const {
  throw InputError(path_.string() + ": " + what);
}

std::span<const std::byte> ZipFile::part(std::uint64_t begin, std::uint64_t size) const {
  const auto bytes = file_->bytes();
  if (begin > bytes.size() || size > bytes.size() - begin) {
    fail("a truncated or damaged zip file: from offset " + std::to_string(begin) + " on it needs " +
         std::to_string(size) + " bytes, but it has only " + std::to_string(bytes.size()) +
         " bytes in total; copy it again");
  }
  return bytes.subspan(begin, size);
}

ZipFile::Directory ZipFile::find_directory() const {
  const auto bytes = file_->bytes();
  const std::uint64_t farthest = std::min<std::uint64_t>(bytes.size(), kEndBytes + kMostComment);
  for (std::uint64_t back = kEndBytes; back <= farthest; ++back) {
    const std::uint64_t at = bytes.size() - back;
    const auto end = bytes.subspan(at);
    if (number_at<std::uint32_t>(end, 0) != kEnd ||
        number_at<std::uint16_t>(end, 20) != back - kEndBytes) {
      continue;
    }
    if (at >= kLocatorBytes) {
      const auto locator = bytes.subspan(at - kLocatorBytes, kLocatorBytes);
      if (number_at<std::uint32_t>(locator, 0) == kEnd64Locator) {
        const auto end64 = part(number_at<std::uint64_t>(locator, 8), kEnd64Bytes);
        if (number_at<std::uint32_t>(end64, 0) != kEnd64) fail("no zip64 end record");
        return {.begin = number_at<std::uint64_t>(end64, 48),
                .size = number_at<std::uint64_t>(end64, 40),
                .entries = number_at<std::uint64_t>(end64, 32)};
      }
    }
    return {.begin = number_at<std::uint32_t>(end, 16),
            .size = number_at<std::uint32_t>(end, 12),
            .entries = number_at<std::uint16_t>(end, 10)};
  }
  fail("begins like a zip file but has no directory at its end: it is truncated; copy it again");
}

void ZipFile::read_directory(const Directory& directory) {
  std::uint64_t at = directory.begin;
  const std::uint64_t end = at + part(at, directory.size).size();
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    auto [name, member] = read_entry(at, end);
    if (!members_.emplace(name, member).second) {
      fail("has two members with the name " + quoted_name(name));
    }
  }
}

std::pair<std::string, ZipFile::Member> ZipFile::read_entry(std::uint64_t& at,
                                                            std::uint64_t end) const {
  const auto header = part(at, kCentralBytes);
  const std::uint64_t name_bytes = number_at<std::uint16_t>(header, 28);
  const std::uint64_t extra_bytes = number_at<std::uint16_t>(header, 30);
  const std::uint64_t bytes =
      kCentralBytes + name_bytes + extra_bytes + number_at<std::uint16_t>(header, 32);
  if (number_at<std::uint32_t>(header, 0) != kCentralHeader || bytes > end - at) {
    fail("a damaged zip file: its directory has fewer members than it says; copy it again");
  }
  const auto name_part = part(at + kCentralBytes, name_bytes);
  const std::string name(reinterpret_cast<const char*>(name_part.data()), name_bytes);
  const auto extra = zip64_field(part(at + kCentralBytes + name_bytes, extra_bytes));
  at += bytes;

  std::size_t used = 0;
  const auto wide = [&](std::size_t where) -> std::uint64_t {
    const auto number = number_at<std::uint32_t>(header, where);
    if (number != kIn64) return number;
    if (used + sizeof(std::uint64_t) > extra.size())
      fail(quoted_name(name) + ": has no zip64 size");
    return number_at<std::uint64_t>(extra, std::exchange(used, used + sizeof(std::uint64_t)));
  };
  const std::uint64_t size = wide(24);  // read in the order of the zip64 field
  const std::uint64_t stored = wide(20);
  const std::uint64_t local = wide(42);
  const auto method = number_at<std::uint16_t>(header, 10);
  const bool encrypted = (number_at<std::uint16_t>(header, 8) & 1) != 0;
  if (method != 0 || encrypted || size != stored) {
    fail("member " + quoted_name(name) + " is " +
         (encrypted ? "encrypted" : "compressed (method " + std::to_string(method) + ")") +
         "; PyTorch stores members as they are: write the file with torch.save()");
  }
  const auto local_header = part(local, kLocalBytes);
  if (number_at<std::uint32_t>(local_header, 0) != kLocalHeader) {
    fail("member " + quoted_name(name) + " is not where the directory says; copy the file again");
  }
  const std::uint64_t begin = local + kLocalBytes + number_at<std::uint16_t>(local_header, 26) +
                              number_at<std::uint16_t>(local_header, 28);
  (void)part(begin, size);
  return {name, {.begin = begin, .size = size, .crc = number_at<std::uint32_t>(header, 16)}};
}

/// Throws if members overlap, because then the same bytes would be read once for each member.
void ZipFile::check_places() const {
  std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string_view>> places;
  for (const auto& [name, m] : members_) places.emplace_back(m.begin, m.begin + m.size, name);
  std::ranges::sort(places);
  std::uint64_t free = 0;
  for (const auto& [begin, end, name] : places) {
    if (begin < free) fail("member " + quoted_name(name) + " overlaps another member");
    free = end;
  }
}

std::string ZipFile::first_ending_with(std::string_view end) const {
  std::string first;
  for (const auto& [name, m] : members_) {
    if (!name.ends_with(end)) continue;
    if (first.empty() || m.begin < members_.at(first).begin) first = name;
  }
  return first;
}

std::span<const std::byte> ZipFile::read(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) fail("has no member " + quoted_name(name));
  const auto bytes = part(found->second.begin, found->second.size);
  const uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != found->second.crc) {
    fail("member " + quoted_name(name) +
         " does not match its checksum in the directory: the file is damaged; copy it again (or "
         "save it again, without set_crc32_options(False))");
  }
  return bytes;
}

}  // namespace pfc
