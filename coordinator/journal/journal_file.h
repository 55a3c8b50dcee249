// The format of a journal's file: a header, then records, each of which changes some values of a
// map, all or none (proto/journal.proto has the map, docs/survival.md the bytes).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "proto/journal.pb.h"

namespace pfc {

/// No coordinator writes more: a larger length is damage.
inline constexpr std::uint32_t kLongestRecord = std::uint32_t{512} << 20;
inline constexpr std::uint32_t kLongestIdentity = std::uint32_t{16} << 20;

using JournalValues = std::map<std::string, std::string>;

/// What a journal's file has.
struct JournalContents {
  proto::JournalIdentity identity;
  JournalValues values;
  std::uint64_t records = 0;
  std::uint64_t torn_bytes = 0;  ///< behind the last whole record: it was written when the end came
};

/// The beginning of the file.
std::string encode_header(const proto::JournalIdentity& identity);
std::string encode_record(const proto::JournalRecord& record);

/// The whole file's bytes. A record that ends before it is complete, or a last one with a wrong
/// checksum, was being written when the coordinator or its machine ended: it is left out, and so
/// are zeros that follow the last record. Damage elsewhere throws InputError, which names the
/// offset, and `name` as the file. Pure.
JournalContents parse_journal(std::string_view bytes, const std::string& name);

/// Of the file's beginning: it may be cut anywhere behind the header. Throws likewise.
proto::JournalIdentity parse_identity(std::string_view bytes, const std::string& name);

}  // namespace pfc
