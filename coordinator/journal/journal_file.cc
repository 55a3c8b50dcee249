#include "coordinator/journal/journal_file.h"

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "common/files/crc32c.h"

namespace pfc {
namespace {

constexpr std::string_view kMagic = "pfcjrnl\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kNumber = 4;
// Version, length and checksum of the identity; checksum of the header so far.
constexpr std::size_t kHeaderBytes = kMagic.size() + 4 * kNumber;
// Length and checksum of the record; checksum of these two numbers.
constexpr std::size_t kRecordHeaderBytes = 3 * kNumber;

void append_number(std::string& bytes, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift);
}

std::uint32_t number_at(std::string_view bytes, std::size_t place) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < kNumber; ++i) {
    number |= std::uint32_t{static_cast<unsigned char>(bytes[place + i])} << (8 * i);
  }
  return number;
}

[[noreturn]] void damaged(const std::string& name, std::size_t offset, const std::string& what) {
  throw InputError(name + ": damaged at byte " + std::to_string(offset) + ": " + what +
                   "; remove the file to start without its contents");
}

/// Returns whether all bytes are 0, like space that the file system allocated but did not fill.
bool is_blank(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
}

/// Returns the identity and the offset of its end.
std::pair<proto::JournalIdentity, std::size_t> read_header(std::string_view bytes,
                                                           const std::string& name) {
  if (!bytes.starts_with(kMagic)) {
    throw InputError(name + ": not a coordinator's journal: expected it to begin with \"pfcjrnl\"");
  }
  if (bytes.size() < kHeaderBytes) damaged(name, bytes.size(), "the header is incomplete");
  const std::uint32_t version = number_at(bytes, kMagic.size());
  const std::uint32_t length = number_at(bytes, kMagic.size() + kNumber);
  const std::uint32_t sum = number_at(bytes, kMagic.size() + 2 * kNumber);
  const std::uint32_t own = number_at(bytes, kMagic.size() + 3 * kNumber);
  if (own != crc32c(bytes.substr(0, kHeaderBytes - kNumber))) {
    damaged(name, 0, "the header's checksum is wrong");
  }
  if (version != kVersion) {
    throw InputError(name + ": found version " + std::to_string(version) +
                     " of the format, expected " + std::to_string(kVersion) +
                     ": it was written by another version of pfc");
  }
  if (length > kLongestIdentity || bytes.size() - kHeaderBytes < length) {
    damaged(name, kHeaderBytes, "the identity is incomplete");
  }
  const std::string_view text = bytes.substr(kHeaderBytes, length);
  proto::JournalIdentity identity;
  if (crc32c(text) != sum || !identity.ParseFromArray(text.data(), static_cast<int>(length))) {
    damaged(name, kHeaderBytes, "the identity's checksum is wrong");
  }
  return {std::move(identity), kHeaderBytes + length};
}

/// Returns the first record of `rest` and its size in the file; nothing if it is incomplete.
std::optional<std::pair<proto::JournalRecord, std::size_t>> read_record(std::string_view rest,
                                                                        std::size_t offset,
                                                                        const std::string& name) {
  if (rest.size() < kRecordHeaderBytes || is_blank(rest)) return {};
  const std::uint32_t length = number_at(rest, 0);
  const std::uint32_t sum = number_at(rest, kNumber);
  if (number_at(rest, 2 * kNumber) != crc32c(rest.substr(0, 2 * kNumber)) ||
      length > kLongestRecord) {
    damaged(name, offset, "the checksum of a record's length is wrong");
  }
  if (rest.size() - kRecordHeaderBytes < length) return {};
  const std::size_t size = kRecordHeaderBytes + length;
  const std::string_view text = rest.substr(kRecordHeaderBytes, length);
  if (crc32c(text) != sum) {
    if (rest.size() == size || is_blank(rest.substr(size))) return {};
    damaged(name, offset, "a record's checksum is wrong, and more records follow it");
  }
  proto::JournalRecord record;
  if (!record.ParseFromArray(text.data(), static_cast<int>(length))) {
    damaged(name, offset, "a record cannot be parsed");
  }
  return std::pair(std::move(record), size);
}

void apply_record(proto::JournalRecord& record, JournalValues& values) {
  for (proto::JournalEntry& entry : *record.mutable_entries()) {
    if (entry.erased()) {
      values.erase(entry.key());
    } else {
      values[entry.key()] = std::move(*entry.mutable_value());
    }
  }
}

}  // namespace

std::string encode_header(const proto::JournalIdentity& identity) {
  const std::string text = identity.SerializeAsString();
  std::string bytes(kMagic);
  append_number(bytes, kVersion);
  append_number(bytes, static_cast<std::uint32_t>(text.size()));
  append_number(bytes, crc32c(text));
  append_number(bytes, crc32c(bytes));
  return bytes + text;
}

std::string encode_record(const proto::JournalRecord& record) {
  const std::string text = record.SerializeAsString();
  std::string bytes;
  bytes.reserve(kRecordHeaderBytes + text.size());
  append_number(bytes, static_cast<std::uint32_t>(text.size()));
  append_number(bytes, crc32c(text));
  append_number(bytes, crc32c(bytes));
  return bytes + text;
}

JournalContents parse_journal(std::string_view bytes, const std::string& name) {
  auto [identity, offset] = read_header(bytes, name);
  JournalContents contents{.identity = std::move(identity), .values = {}};
  while (offset < bytes.size()) {
    auto record = read_record(bytes.substr(offset), offset, name);
    if (!record) break;
    apply_record(record->first, contents.values);
    contents.records += 1;
    offset += record->second;
  }
  contents.torn_bytes = bytes.size() - offset;
  return contents;
}

proto::JournalIdentity parse_identity(std::string_view bytes, const std::string& name) {
  return read_header(bytes, name).first;
}

}  // namespace pfc
