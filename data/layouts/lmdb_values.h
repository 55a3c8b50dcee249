// Parses the values of an LMDB data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pfc {

enum class ValueKind { kImage, kPickle, kDatum };

/// Returns text for display: "pickles of an image and a label".
const char* text_of(ValueKind kind);

/// Detects the kind from the first bytes; kDatum if no other kind matches.
ValueKind kind_of(std::span<const std::byte> value);

struct LabelledImage {
  std::span<const std::byte> image;  ///< encoded; a view of the value or of `parsed`
  std::int64_t label = -1;           ///< -1: the value has no label
};

/// Parses a value. `parsed`: memory for an image in another representation. Throws DamagedImage
/// that starts with `name` if the value is of another kind, or malformed.
LabelledImage parse_value(ValueKind kind, std::span<const std::byte> value, const std::string& name,
                          std::vector<std::byte>& parsed);

}  // namespace pfc
