// Journal file format: a header, then records, each of which changes values of a map atomically.
// proto/journal.proto describes the map, docs/survival.md the bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "proto/journal.pb.h"

namespace pfc {

/// Upper limits; a larger length is treated as damage.
inline constexpr std::uint32_t kLongestRecord = std::uint32_t{512} << 20;
inline constexpr std::uint32_t kLongestIdentity = std::uint32_t{16} << 20;

using JournalValues = std::map<std::string, std::string>;

/// Contents of a journal file.
struct JournalContents {
  proto::JournalIdentity identity;
  JournalValues values;
  std::uint64_t records = 0;
  std::uint64_t torn_bytes = 0;  ///< size of an interrupted write, after the last complete record
};

/// Returns the first bytes of the file.
std::string encode_header(const proto::JournalIdentity& identity);
std::string encode_record(const proto::JournalRecord& record);

/// Parses the bytes of a whole file. Ignores an incomplete record, a last record with a wrong
/// checksum, and zeros after the last record: they come from a write that was interrupted. Throws
/// InputError, which names the offset and the file `name`, for other damage. Pure.
JournalContents parse_journal(std::string_view bytes, const std::string& name);

/// Parses the identity from the start of a file. `bytes` may end after it. Throws like
/// parse_journal().
proto::JournalIdentity parse_identity(std::string_view bytes, const std::string& name);

}  // namespace pfc
