// Checks whether an index covers the records of its .rec. This detects an index that was truncated
// at the end of a line, which otherwise looks complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/records/record_reader.h"

namespace pfc {

struct IndexCoverage {
  std::int64_t lines = 0;    ///< lines of the index, one for each image
  std::int64_t records = 0;  ///< number of different records to which these lines refer
  std::int64_t unnamed = 0;  ///< records of the .rec without a line in the index
  std::int64_t between = 0;  ///< unnamed records between two indexed ones
  std::int64_t behind = 0;   ///< unnamed records after the last indexed one
  bool exact = true;         ///< false: the three numbers above are estimates
};

/// Compares the offsets of all images with the records of the file. Reads only headers: in a small
/// set all of them, in a large set only the headers after 512 images spread over the file. Does not
/// report damage; reading the images finds it. REQUIRES: offsets is not empty.
IndexCoverage index_coverage(const RecordReader& rec, std::span<const std::uint64_t> offsets);

/// Returns warnings about an index, one line each: records that occur repeatedly, and, if
/// `all_are_images`, records without a line. `origin` names the index. Throws InputError if there
/// are several lines and all name the same record.
std::vector<std::string> index_warnings(const IndexCoverage& coverage, bool all_are_images,
                                        const std::string& origin, const std::string& rec);

}  // namespace pfc
