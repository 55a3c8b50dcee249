// Finds the records of a .rec that are images: those announced by record 0 in InsightFace's
// layout, otherwise all of them (im2rec).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/records/record_index.h"
#include "data/records/record_reader.h"

namespace pfc {

struct RecordLayout {
  std::vector<std::uint64_t> offsets;  ///< offset of each image's record
  std::vector<std::int64_t> keys;      ///< key of each image; empty: image i has key first_key + i
  std::int64_t first_key = 1;
  std::int64_t identities = 0;  ///< from record 0; 0 if there is no record 0

  /// Returns the memory of the index. Consecutive keys, the usual case, are not stored.
  [[nodiscard]] std::size_t bytes() const {
    return offsets.capacity() * sizeof(std::uint64_t) + keys.capacity() * sizeof(std::int64_t);
  }

  [[nodiscard]] std::int64_t key(std::size_t image) const {
    return keys.empty() ? first_key + static_cast<std::int64_t>(image) : keys[image];
  }
};

/// Detects the layout from record 0 and finds the images. `origin` names the index in errors.
/// Throws InputError if there are no images, or a key is missing or occurs twice.
RecordLayout find_images(const RecordReader& rec, RecordIndex index, const std::string& origin);

}  // namespace pfc
