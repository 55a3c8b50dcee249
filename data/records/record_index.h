// The index of a .rec file: the offset of each key's record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/records/record_reader.h"

namespace pfc {

/// Record keys[i] starts at offsets[i]. Entries are in the order of the .idx, or else of the .rec.
struct RecordIndex {
  std::vector<std::int64_t> keys;
  std::vector<std::uint64_t> offsets;
};

/// Reads lines `key \t offset`, in any order. Throws InputError that names file and line for a
/// malformed number, a negative key, or an offset that is not a multiple of 4 or is past the end
/// of the .rec.
RecordIndex read_record_index(const std::filesystem::path& idx, const RecordReader& rec,
                              const Doing& doing = {});

/// Creates an index in one pass over the .rec: the keys are 0, 1, 2 ... in file order.
RecordIndex scan_records(const RecordReader& rec, const Doing& doing = {});

}  // namespace pfc
