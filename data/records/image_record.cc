#include "data/records/image_record.h"

#include <array>
#include <cstring>
#include <string>

#include "common/error.h"

namespace pfc {

namespace {

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> encode(std::uint32_t flag, float label, std::uint64_t id,
                              std::span<const float> labels, std::span<const std::byte> image) {
  std::vector<std::byte> out;
  out.reserve(kImageHeaderBytes + labels.size_bytes() + image.size());
  append(out, flag);
  append(out, label);
  append(out, id);
  append(out, std::uint64_t{0});
  for (const float l : labels) append(out, l);
  out.insert(out.end(), image.begin(), image.end());
  return out;
}

}  // namespace

float ImageRecord::label_at(std::size_t i) const {
  check(i < flag, "ImageRecord: no such label");
  return load<float>(label_bytes, 4 * i);
}

std::optional<ImageRecord> parse_image_record(std::span<const std::byte> payload) {
  if (payload.size() < kImageHeaderBytes) return std::nullopt;
  ImageRecord record;
  record.flag = load<std::uint32_t>(payload, 0);
  record.label = load<float>(payload, 4);
  record.id = load<std::uint64_t>(payload, 8);
  payload = payload.subspan(kImageHeaderBytes);
  if (record.flag > payload.size() / 4) return std::nullopt;
  record.label_bytes = payload.first(std::size_t{record.flag} * 4);
  record.image = payload.subspan(record.label_bytes.size());
  if (record.flag > 0) record.label = record.label_at(0);
  return record;
}

std::vector<std::byte> encode_image_record(std::int64_t label, std::uint64_t id,
                                           std::span<const std::byte> image) {
  if (label < 0 || label > kMaxFloatLabel) {
    throw InputError("label " + std::to_string(label) + " of image " + std::to_string(id) +
                     ": RecordIO's float32 labels reach from 0 to " +
                     std::to_string(kMaxFloatLabel));
  }
  return encode(0, static_cast<float>(label), id, {}, image);
}

std::vector<std::byte> encode_image_record(std::span<const float> labels, std::uint64_t id,
                                           std::span<const std::byte> image) {
  check(!labels.empty(), "encode_image_record: no label");
  return encode(static_cast<std::uint32_t>(labels.size()), 0.f, id, labels, image);
}

std::vector<std::byte> encode_record_zero(std::int64_t images, std::int64_t identities) {
  const std::array<float, 2> labels{static_cast<float>(images + 1),
                                    static_cast<float>(images + 1 + identities)};
  return encode(2, 0.f, 0, labels, {});
}

std::vector<std::byte> encode_identity_record(std::int64_t key, std::int64_t first_image,
                                              std::int64_t end_image) {
  const std::array<float, 2> labels{static_cast<float>(first_image), static_cast<float>(end_image)};
  return encode(2, 0.f, static_cast<std::uint64_t>(key), labels, {});
}

}  // namespace pfc
