#include "data/records/record_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/records/record_format.h"

namespace pfc {

namespace {

// One system call reads most face images completely: JPEGs of 112 x 112 have 3 to 8 KiB.
constexpr std::uint64_t kFirstRead = 16 << 10;
constexpr std::size_t kScanWindow = 4 << 20;

}  // namespace

std::string RecordReader::at(std::uint64_t offset) const {
  return fmt::format("{}: offset {}", path().string(), offset);
}

std::size_t RecordReader::read_some(std::uint64_t offset, std::span<std::byte> to) const {
  return as_damaged_image([&] { return file_->read_at(offset, to); });
}

void RecordReader::read_exactly(std::uint64_t offset, std::span<std::byte> to) const {
  const std::size_t got = read_some(offset, to);
  if (got == to.size()) return;
  throw DamagedImage(fmt::format("{}: the file ends after {} of {} bytes: it is truncated",
                                 at(offset), got, to.size()));
}

RecordReader::Part RecordReader::parse_part(std::uint64_t offset, std::span<const std::byte> header,
                                            bool first) const {
  std::array<std::uint32_t, 2> words{};
  std::memcpy(words.data(), header.data(), kPartHeaderBytes);
  if (words[0] != kRecordMagic) {
    throw DamagedImage(fmt::format("{}: found {:#010x}, expected RecordIO's magic {:#010x}",
                                   at(offset), words[0], kRecordMagic));
  }
  const Part part{part_flag(words[1]), part_bytes(words[1])};
  const auto is = [&](PartKind kind) { return part.flag == static_cast<std::uint32_t>(kind); };
  const bool expected = first ? is(PartKind::kWhole) || is(PartKind::kFirst)
                              : is(PartKind::kMiddle) || is(PartKind::kLast);
  if (!expected) {
    throw DamagedImage(
        fmt::format("{}: found a part with cflag {}, expected {}", at(offset), part.flag,
                    first ? "0 or 1 (a record begins)" : "2 or 3 (the record continues)"));
  }
  if (part.bytes > bytes() - offset - kPartHeaderBytes) {
    throw DamagedImage(
        fmt::format("{}: a part of {} bytes, but the file ends after {}: it is "
                    "truncated",
                    at(offset), part.bytes, bytes() - offset - kPartHeaderBytes));
  }
  return part;
}

Extent RecordReader::extent(std::uint64_t offset, std::uint64_t end) const {
  const std::uint64_t rest = bytes() - std::min(offset, bytes());
  return {file_, offset, end > 0 ? end - offset : std::min(rest, kFirstRead)};
}

std::span<const std::byte> RecordReader::payload(std::uint64_t offset, StoredImage& stored) const {
  if (offset > bytes() || bytes() - offset < kPartHeaderBytes) {
    throw DamagedImage(fmt::format("{}: outside the file of {} bytes", at(offset), bytes()));
  }
  std::vector<std::byte>& joined = stored.parsed();
  joined.clear();
  std::size_t begin = 0;  // where the current part begins
  for (bool first = true;; first = false) {
    const std::size_t content = begin + kPartHeaderBytes;
    const Part part = parse_part(offset + begin, stored.first(content).subspan(begin), first);
    const auto bytes = stored.first(content + part.bytes).subspan(content);
    if (part.flag == static_cast<std::uint32_t>(PartKind::kWhole)) return bytes;
    const auto magic = std::as_bytes(std::span(&kRecordMagic, first ? 0 : 1));
    if (joined.size() + magic.size() + bytes.size() > kMaxRecordBytes) {
      throw DamagedImage(
          fmt::format("{}: a record of more than {} bytes", at(offset), kMaxRecordBytes));
    }
    joined.insert(joined.end(), magic.begin(), magic.end());
    joined.insert(joined.end(), bytes.begin(), bytes.end());
    if (part.flag == static_cast<std::uint32_t>(PartKind::kLast)) return joined;
    begin = content + padded(part.bytes);
  }
}

std::uint64_t RecordReader::walk(std::uint64_t offset, const Fetch& fetch) const {
  for (bool first = true;; first = false) {
    if (offset > bytes() || bytes() - offset < kPartHeaderBytes) {
      throw DamagedImage(
          fmt::format("{}: a record was expected here, but the file ends at {}: it "
                      "is truncated",
                      at(offset), bytes()));
    }
    const Part part = parse_part(offset, fetch(offset), first);
    const std::uint64_t end = offset + kPartHeaderBytes + padded(part.bytes);
    if (end > bytes()) {
      throw DamagedImage(
          fmt::format("{}: the record's padding ends at {}, but the file ends at {}: "
                      "it is truncated",
                      at(offset), end, bytes()));
    }
    offset = end;
    if (part.flag == static_cast<std::uint32_t>(PartKind::kWhole) ||
        part.flag == static_cast<std::uint32_t>(PartKind::kLast)) {
      return offset;
    }
  }
}

std::uint64_t RecordReader::record_end(std::uint64_t offset) const {
  std::array<std::byte, kPartHeaderBytes> header{};
  return walk(offset, [&](std::uint64_t part) {
    read_exactly(part, header);
    return std::span<const std::byte>(header);
  });
}

std::vector<std::uint64_t> RecordReader::scan(const Doing& doing) const {
  // Reads everything in large pieces. This is faster than a small read per record unless the file
  // is cached: a record is about one page long, so every page is read anyway.
  std::vector<std::byte> window(std::min<std::uint64_t>(kScanWindow, bytes()));
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const auto fetch = [&](std::uint64_t part) {
    if (part < begin || part + kPartHeaderBytes > end) {
      begin = part;
      end = part + read_some(part, window);
      if (end < part + kPartHeaderBytes) {
        throw DamagedImage(at(part) + ": the file was truncated while it was read");
      }
      if (doing) {
        doing(fmt::format("scanning {}: {} %", path().string(), 100 * part / bytes()));
      }
    }
    return std::span<const std::byte>(window).subspan(part - begin, kPartHeaderBytes);
  };
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < bytes();) {
    offsets.push_back(offset);
    offset = walk(offset, fetch);
  }
  return offsets;
}

}  // namespace pfc
