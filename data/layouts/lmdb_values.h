// What the values of an LMDB data set hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pfc {

enum class ValueKind { kImage, kPickle, kDatum };

/// For people: "pickles of an image and a label".
const char* text_of(ValueKind kind);

/// By the first bytes; kDatum where they are of no other kind.
ValueKind kind_of(std::span<const std::byte> value);

struct LabelledImage {
  std::span<const std::byte> image;  ///< encoded; a view of `storage`
  std::int64_t label = -1;           ///< -1: the value has none
};

/// The value is the first `bytes` of `storage`, which is replaced where the value holds the image
/// in another encoding. Throws DamagedImage that begins with `name` where the value is of another
/// kind, or broken.
LabelledImage parse_value(ValueKind kind, std::size_t bytes, const std::string& name,
                          std::vector<std::byte>& storage);

}  // namespace pfc
