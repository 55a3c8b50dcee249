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
constexpr std::size_t kFirstRead = 16 << 10;
constexpr std::size_t kScanWindow = 4 << 20;

}  // namespace

std::string RecordReader::at(std::uint64_t offset) const {
  return fmt::format("{}: offset {}", path().string(), offset);
}

std::size_t RecordReader::read_some(std::uint64_t offset, std::span<std::byte> to) const {
  return as_damaged_image([&] { return file_.read_at(offset, to); });
}

void RecordReader::read_exactly(std::uint64_t offset, std::span<std::byte> to) const {
  const std::size_t got = read_some(offset, to);
  if (got == to.size()) return;
  throw DamagedImage(fmt::format("{}: the file ends after {} of {} bytes: it is cut short",
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
                    first ? "0 or 1 (a record begins)" : "2 or 3 (the record goes on)"));
  }
  if (part.bytes > bytes() - offset - kPartHeaderBytes) {
    throw DamagedImage(
        fmt::format("{}: a part of {} bytes, but the file ends after {}: it is cut "
                    "short",
                    at(offset), part.bytes, bytes() - offset - kPartHeaderBytes));
  }
  return part;
}

std::span<const std::byte> RecordReader::read(std::uint64_t offset,
                                              std::vector<std::byte>& storage) const {
  if (offset > bytes() || bytes() - offset < kPartHeaderBytes) {
    throw DamagedImage(fmt::format("{}: outside the file of {} bytes", at(offset), bytes()));
  }
  if (storage.size() < kFirstRead) storage.resize(kFirstRead);
  const std::size_t got = read_some(offset, std::span(storage).first(kFirstRead));
  if (got < kPartHeaderBytes) throw DamagedImage(at(offset) + ": the file has become shorter");
  const Part part = parse_part(offset, storage, true);
  if (part.flag != static_cast<std::uint32_t>(PartKind::kWhole)) return join(offset, storage);

  const std::size_t end = kPartHeaderBytes + part.bytes;
  if (end > got) {
    if (storage.size() < end) storage.resize(end);
    read_exactly(offset + got, std::span(storage).subspan(got, end - got));
  }
  return std::span(storage).subspan(kPartHeaderBytes, part.bytes);
}

std::span<const std::byte> RecordReader::read_stored(std::uint64_t offset,
                                                     std::span<const std::byte> stored,
                                                     std::vector<std::byte>& storage) const {
  std::array<std::uint32_t, 2> words{};
  if (stored.size() >= kPartHeaderBytes) std::memcpy(words.data(), stored.data(), kPartHeaderBytes);
  const bool here = words[0] == kRecordMagic &&
                    part_flag(words[1]) == static_cast<std::uint32_t>(PartKind::kWhole) &&
                    kPartHeaderBytes + part_bytes(words[1]) <= stored.size();
  // Damaged, split and truncated records are rare; read() handles and reports them.
  if (!here) return read(offset, storage);
  return stored.subspan(kPartHeaderBytes, part_bytes(words[1]));
}

std::span<const std::byte> RecordReader::join(std::uint64_t offset,
                                              std::vector<std::byte>& storage) const {
  const std::uint64_t begin = offset;
  std::size_t size = 0;
  for (bool first = true, last = false; !last; first = false) {
    std::array<std::byte, kPartHeaderBytes> header{};
    read_exactly(offset, header);
    const Part part = parse_part(offset, header, first);
    const std::size_t magic = first ? 0 : sizeof kRecordMagic;
    if (size + magic + part.bytes > kMaxRecordBytes) {
      throw DamagedImage(
          fmt::format("{}: a record of more than {} bytes", at(begin), kMaxRecordBytes));
    }
    if (storage.size() < size + magic + part.bytes) storage.resize(size + magic + part.bytes);
    if (!first) std::memcpy(storage.data() + size, &kRecordMagic, magic);
    size += magic;
    read_exactly(offset + kPartHeaderBytes, std::span(storage).subspan(size, part.bytes));
    size += part.bytes;
    offset += kPartHeaderBytes + padded(part.bytes);
    last = part.flag == static_cast<std::uint32_t>(PartKind::kLast);
  }
  return std::span(storage).first(size);
}

std::uint64_t RecordReader::walk(std::uint64_t offset, const Fetch& fetch) const {
  for (bool first = true;; first = false) {
    if (offset > bytes() || bytes() - offset < kPartHeaderBytes) {
      throw DamagedImage(
          fmt::format("{}: a record was expected here, but the file ends at {}: it "
                      "is cut short",
                      at(offset), bytes()));
    }
    const Part part = parse_part(offset, fetch(offset), first);
    const std::uint64_t end = offset + kPartHeaderBytes + padded(part.bytes);
    if (end > bytes()) {
      throw DamagedImage(
          fmt::format("{}: the record's padding ends at {}, but the file at {}: it "
                      "is cut short",
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
        throw DamagedImage(at(part) + ": the file has become shorter");
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
