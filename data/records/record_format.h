// The framing of RecordIO files (dmlc-core's recordio.h). A record has one or more parts. A part
// is
//   u32 magic | u32 cflag (3 bits), length (29 bits) | payload | zeros up to a multiple of 4
// in little-endian. If a payload word at a multiple of 4 bytes equals the magic number, the word is
// removed and the record is split there. So wherever the file has the magic number at a multiple of
// 4 bytes, a part starts.
#pragma once

#include <bit>
#include <cstdint>

namespace pfc {

static_assert(std::endian::native == std::endian::little, "RecordIO is read in host byte order");

inline constexpr std::uint32_t kRecordMagic = 0xced7230a;
inline constexpr std::uint64_t kPartHeaderBytes = 8;
inline constexpr std::uint32_t kMaxPartBytes = (1u << 29) - 1;

/// cflag: position of the part in its record.
enum class PartKind : std::uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

inline std::uint32_t encode_part(PartKind kind, std::uint32_t bytes) {
  return static_cast<std::uint32_t>(kind) << 29 | bytes;
}
/// Returns the 3 bits of cflag. Values above 3 are not a PartKind.
inline std::uint32_t part_flag(std::uint32_t word) { return word >> 29; }
inline std::uint32_t part_bytes(std::uint32_t word) { return word & kMaxPartBytes; }
inline std::uint64_t padded(std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; }

}  // namespace pfc
