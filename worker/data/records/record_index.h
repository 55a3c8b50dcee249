// The .idx beside a .rec: where the record of each key begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/data/records/record_reader.h"

namespace pfc {

/// Entry i is record keys[i] at offsets[i]: in the order of the .idx, or of the .rec without one.
struct RecordIndex {
  std::vector<std::int64_t> keys;
  std::vector<std::uint64_t> offsets;
};

/// Reads lines `key \t offset`, in any order. Throws InputError that names file and line: no
/// number, a negative key, an offset that is not a multiple of 4 or points past the end of the
/// .rec.
RecordIndex read_record_index(const std::filesystem::path& idx, const RecordReader& rec);

/// An index from one pass over the .rec: the keys are 0, 1, 2 ... in the file's order.
RecordIndex scan_records(const RecordReader& rec);

}  // namespace pfc
