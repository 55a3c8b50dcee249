#include "worker/tensorboard/record_frame.h"

#include "common/files/crc32c.h"

namespace pfc {
namespace {

template <typename Number>
void append(std::string& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + kMask;
}

std::string frame_of(std::string_view data) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + data.size() + kFrameFooterBytes);
  append(frame, std::uint64_t{data.size()});
  append(frame, masked_crc32c(frame));
  frame += data;
  append(frame, masked_crc32c(data));
  return frame;
}

std::optional<std::uint64_t> data_bytes_of(std::string_view header) {
  const auto crc = number_at<std::uint32_t>(header, sizeof(std::uint64_t));
  if (crc != masked_crc32c(header.substr(0, sizeof(std::uint64_t)))) return {};
  return number_at<std::uint64_t>(header, 0);
}

bool matches(std::string_view data, std::string_view footer) {
  return number_at<std::uint32_t>(footer, 0) == masked_crc32c(data);
}

}  // namespace pfc
