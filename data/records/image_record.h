// Content of an image record: MXNet's IRHeader, labels and the encoded image.
//   u32 flag | f32 label | u64 id | u64 id2 | flag x f32 labels | JPEG or PNG bytes
// With flag 0 the only label is in the header. With flag > 0 that many labels follow, and the one
// in the header is ignored.
//
// Labels are float32, which represents every integer only up to 2^24. Larger labels are not
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace pfc {

inline constexpr std::size_t kImageHeaderBytes = 24;
inline constexpr std::int64_t kMaxFloatLabel = std::int64_t{1} << 24;

/// A parsed record. Its spans are views of the payload.
struct ImageRecord {
  float label = 0;         ///< the first label
  std::uint32_t flag = 0;  ///< number of labels after the header
  std::uint64_t id = 0;
  std::span<const std::byte> label_bytes;  ///< `flag` float32 numbers
  std::span<const std::byte> image;        ///< encoded; empty in records that hold labels only

  [[nodiscard]] float label_at(std::size_t i) const;  ///< REQUIRES: i < flag
};

/// Returns nullopt if the payload is too short for its header and labels.
std::optional<ImageRecord> parse_image_record(std::span<const std::byte> payload);

/// Returns a record with flag 0. Throws InputError for a label outside 0 .. 2^24.
std::vector<std::byte> encode_image_record(std::int64_t label, std::uint64_t id,
                                           std::span<const std::byte> image);
/// Returns a record with several labels: flag is labels.size(). REQUIRES: labels is not empty.
std::vector<std::byte> encode_image_record(std::span<const float> labels, std::uint64_t id,
                                           std::span<const std::byte> image);

/// Returns InsightFace's record 0: keys 1 .. images are images, the next `identities` keys are
/// identities.
std::vector<std::byte> encode_record_zero(std::int64_t images, std::int64_t identities);
/// Returns InsightFace's identity record: its images have the keys first_image .. end_image - 1.
std::vector<std::byte> encode_identity_record(std::int64_t key, std::int64_t first_image,
                                              std::int64_t end_image);

}  // namespace pfc
