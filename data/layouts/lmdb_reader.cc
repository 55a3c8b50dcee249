#include "data/layouts/lmdb_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <ranges>
#include <utility>

#include "common/error.h"

namespace pfc {

namespace {

// A page:  u64 number | u16 | u16 flags | u16 lower, u16 upper (or u32 pages) | u16 node offsets
// A node:  u16 low, u16 high | u16 flags | u16 key bytes | key | data
// A meta page, after its header:  u32 magic | u32 version | u64 | u64 map size | free database |
//          main database | u64 last page | u64 transaction
// A database:  u32 (in the free database: page size) | u16 flags | u16 depth | u64 branch pages |
//          u64 leaf pages | u64 overflow pages | u64 entries | u64 root
constexpr std::uint32_t kLmdbMagic = 0xbeefc0de;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kNoPage = UINT64_MAX;  // root of an empty database
constexpr std::size_t kPageHeader = 16, kNodeHeader = 8;
constexpr std::size_t kMetaBytes = kPageHeader + 24 + 2 * 48 + 16;
constexpr std::uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMetaPage = 8;
constexpr std::uint16_t kBigData = 1, kSubData = 2, kDupData = 4;
constexpr int kDeepest = 32;

template <typename Integer>
Integer number_at(std::span<const std::byte> bytes, std::size_t place) {
  Integer value = 0;
  std::memcpy(&value, bytes.data() + place, sizeof(value));
  return value;
}

}  // namespace

LmdbReader::LmdbReader(const RegularFile& file) : file_(file) {
  static_assert(std::endian::native == std::endian::little, "read in host byte order");
  const Meta first = read_meta(0);
  const Meta second = read_meta(first.page_bytes);
  const Meta& newest = second.transaction > first.transaction ? second : first;
  page_bytes_ = first.page_bytes;
  pages_ = file_.bytes() / page_bytes_;
  root_ = newest.root;
  entries_ = newest.entries;
  depth_ = newest.depth;
  if (root_ != kNoPage && (depth_ < 1 || depth_ > kDeepest)) {
    fail(root_, fmt::format("found a tree of {} levels, expected 1 to {}", depth_, kDeepest));
  }
}

void LmdbReader::fail(std::uint64_t page, const std::string& what) const {
  throw InputError(fmt::format("{}: page {}: {}: not a complete LMDB database; copy it again",
                               file_.path().string(), page, what));
}

LmdbReader::Meta LmdbReader::read_meta(std::uint64_t offset) const {
  std::array<std::byte, kMetaBytes> bytes{};
  const std::uint64_t page = offset == 0 ? 0 : 1;
  if (file_.read_at(offset, bytes) < bytes.size()) {
    fail(page, fmt::format("found {} bytes in the file, expected more", file_.bytes()));
  }
  const std::size_t body = kPageHeader, free = body + 24, main = free + 48, end = main + 48;
  const auto magic = number_at<std::uint32_t>(bytes, body);
  const auto version = number_at<std::uint32_t>(bytes, body + 4);
  if (magic != kLmdbMagic) {
    fail(page, fmt::format("found {:08x}, expected LMDB's {:08x}", magic, kLmdbMagic));
  }
  if ((number_at<std::uint16_t>(bytes, 10) & kMetaPage) == 0) {
    fail(page, "found a page without the flag of a meta page");
  }
  if (version != kVersion) {
    fail(page, fmt::format("found version {}, expected {}", version, kVersion));
  }
  const Meta meta{.transaction = number_at<std::uint64_t>(bytes, end + 8),
                  .root = number_at<std::uint64_t>(bytes, main + 40),
                  .entries = number_at<std::uint64_t>(bytes, main + 32),
                  .page_bytes = number_at<std::uint32_t>(bytes, free),
                  .depth = number_at<std::uint16_t>(bytes, main + 6)};
  if (meta.page_bytes < 256 || meta.page_bytes > 65'536 || !std::has_single_bit(meta.page_bytes)) {
    fail(page, fmt::format("found pages of {} bytes, expected a power of two from 256 to 65,536",
                           meta.page_bytes));
  }
  return meta;
}

std::vector<std::byte> LmdbReader::page(std::uint64_t number) const {
  if (number >= pages_) {
    fail(number, fmt::format("found only {} pages: the file is truncated", pages_));
  }
  std::vector<std::byte> bytes(page_bytes_);
  if (file_.read_at(number * page_bytes_, bytes) < bytes.size()) {
    fail(number, "the file was truncated while it was read");
  }
  if (const auto found = number_at<std::uint64_t>(bytes, 0); found != number) {
    fail(number, fmt::format("found page number {} in it", found));
  }
  return bytes;
}

std::vector<LmdbReader::Node> LmdbReader::nodes(std::span<const std::byte> page,
                                                std::uint64_t number) const {
  const std::size_t lower = number_at<std::uint16_t>(page, 12);
  if (lower < kPageHeader || lower > page.size()) {
    fail(number, fmt::format("found nodes up to byte {}", lower));
  }
  std::vector<Node> nodes;
  std::size_t used = 0;
  for (std::size_t at = kPageHeader; at + 2 <= lower; at += 2) {
    const std::size_t place = number_at<std::uint16_t>(page, at);
    if (place < lower || place + kNodeHeader > page.size()) {
      fail(number, fmt::format("found a node at byte {}", place));
    }
    Node node{.place = place,
              .flags = number_at<std::uint16_t>(page, place + 4),
              .key_bytes = number_at<std::uint16_t>(page, place + 6),
              .low = number_at<std::uint32_t>(page, place)};
    if (place + kNodeHeader + node.key_bytes > page.size()) {
      fail(number, fmt::format("found a key of {} bytes", node.key_bytes));
    }
    used += kNodeHeader + node.key_bytes;
    if (used > page.size() - lower) fail(number, "found nodes that overlap");
    nodes.push_back(node);
  }
  return nodes;
}

std::uint64_t LmdbReader::pages_of(std::uint32_t bytes) const {
  return (kPageHeader + bytes + page_bytes_ - 1) / page_bytes_;
}

LmdbValue LmdbReader::value(std::span<const std::byte> page, std::uint64_t number,
                            const Node& node) const {
  const std::uint64_t place = node.place + kNodeHeader + node.key_bytes;
  if ((node.flags & kBigData) == 0) {
    if (node.low > page.size() - place) {
      fail(number, fmt::format("found a value of {} bytes", node.low));
    }
    return {.offset = number * page_bytes_ + place, .bytes = node.low};
  }
  if (place + 8 > page.size()) fail(number, "found a node without its data");
  const auto first = number_at<std::uint64_t>(page, place);
  if (first >= pages_ || pages_of(node.low) > pages_ - first) {
    fail(number, fmt::format("found a value of {} bytes from page {} on, but only {} pages",
                             node.low, first, pages_));
  }
  // content() checks the header of these pages later. Checking it here would need a read per image.
  return {
      .offset = first * page_bytes_ + kPageHeader, .bytes = node.low, .header_bytes = kPageHeader};
}

std::span<const std::byte> LmdbReader::content(const LmdbValue& value,
                                               std::span<const std::byte> stored) const {
  check(stored.size() >= value.header_bytes, "LmdbReader: a value without its header");
  if (value.header_bytes > 0) {
    const std::uint64_t first = value.offset / page_bytes_;
    const bool its_own = number_at<std::uint64_t>(stored, 0) == first &&
                         (number_at<std::uint16_t>(stored, 10) & kOverflow) != 0 &&
                         number_at<std::uint32_t>(stored, 12) >= pages_of(value.bytes);
    if (!its_own) fail(first, fmt::format("expected the data of a value of {} bytes", value.bytes));
  }
  return stored.subspan(value.header_bytes);
}

void LmdbReader::for_each(
    const std::function<void(std::string_view key, const LmdbValue&)>& take) const {
  std::uint64_t met = 0;
  bool duplicates = false;  // counted as entries by the file, but skipped
  for_each_leaf([&](std::span<const std::byte> page, std::uint64_t number) {
    for (const Node& node : nodes(page, number)) {
      ++met;
      duplicates = duplicates || (node.flags & kDupData) != 0;
      if ((node.flags & (kSubData | kDupData)) != 0) continue;
      take({reinterpret_cast<const char*>(page.data()) + node.place + kNodeHeader, node.key_bytes},
           value(page, number, node));
    }
  });
  if (duplicates || met == entries_) return;
  throw InputError(fmt::format(
      "{}: found {} entries, but the file says that there are {}: not a complete LMDB database",
      file_.path().string(), met, entries_));
}

void LmdbReader::for_each_leaf(
    const std::function<void(std::span<const std::byte> page, std::uint64_t number)>& take) const {
  if (root_ == kNoPage) return;
  std::vector<std::pair<std::uint64_t, int>> open{{root_, 1}};  // pages and their levels
  std::uint64_t visited = 0;
  while (!open.empty()) {
    const auto [number, level] = open.back();
    open.pop_back();
    // In a tree no page occurs twice.
    if (++visited > pages_) fail(number, "found a cycle of pages");
    const std::vector<std::byte> bytes = page(number);
    const auto flags = number_at<std::uint16_t>(bytes, 10);
    if ((flags & kBranch) != 0) {
      if (level >= depth_) fail(number, fmt::format("found more than {} levels", depth_));
      for (const Node& node : nodes(bytes, number) | std::views::reverse) {
        open.emplace_back(node.low | std::uint64_t{node.flags} << 32, level + 1);
      }
      continue;
    }
    if ((flags & kLeaf) == 0) fail(number, fmt::format("found flags {}", flags));
    take(bytes, number);
  }
}

}  // namespace pfc
