// Finds out whether an index names the records of its .rec: an index that lost its end at a line's
// end reads like a whole one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/records/record_reader.h"

namespace pfc {

struct IndexCoverage {
  std::int64_t lines = 0;    ///< images that the index names
  std::int64_t records = 0;  ///< different records among them
  std::int64_t unnamed = 0;  ///< records of the .rec that no line names
  std::int64_t between = 0;  ///< those of them between two that a line names
  std::int64_t behind = 0;   ///< those of them behind the last record that a line names
  bool exact = true;         ///< false: the three numbers above are an estimate
};

/// Compares the offsets of all images with the records of the file. Reads only headers: in a small
/// set all of them, in a large one those behind 512 images spread over the file. Damage is left to
/// be found by reading. REQUIRES: there is an offset.
IndexCoverage index_coverage(const RecordReader& rec, std::span<const std::uint64_t> offsets);

/// One line for each thing that a person should know about an index: records that occur again and
/// again, and, where `all_are_images`, records that no line names. `origin` names the index. Throws
/// InputError where all of several lines name the same record.
std::vector<std::string> index_warnings(const IndexCoverage& coverage, bool all_are_images,
                                        const std::string& origin, const std::string& rec);

}  // namespace pfc
