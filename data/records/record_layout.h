// Which records of a .rec are images: those that record 0 announces in InsightFace's layout, or all
// of them (im2rec).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/records/record_index.h"
#include "data/records/record_reader.h"

namespace pfc {

struct RecordLayout {
  std::vector<std::uint64_t> offsets;  ///< of each image
  std::vector<std::int64_t> keys;      ///< of each image; empty: image i has key first_key + i
  std::int64_t first_key = 1;
  std::int64_t identities = 0;  ///< as record 0 says; 0 where there is no record 0

  /// Memory of the index; it holds no keys where they count up, as nearly everywhere.
  [[nodiscard]] std::size_t bytes() const {
    return offsets.capacity() * sizeof(std::uint64_t) + keys.capacity() * sizeof(std::int64_t);
  }

  [[nodiscard]] std::int64_t key(std::size_t image) const {
    return keys.empty() ? first_key + static_cast<std::int64_t>(image) : keys[image];
  }
};

/// Recognises the layout by record 0 and finds the images. `origin` names the index in errors.
/// Throws InputError where there are no images, or a key is missing or there twice.
RecordLayout find_images(const RecordReader& rec, RecordIndex index, const std::string& origin);

}  // namespace pfc
