// The frames of a TFRecord file: a file of TensorBoard is a sequence of them, with one Event each.
//
//   uint64  length of the data, little-endian
//   uint32  masked CRC-32C of these 8 bytes
//   byte    data[length]
//   uint32  masked CRC-32C of the data
//
// (tensorflow/core/lib/io/record_writer.h; the mask is that of leveldb's log format.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pfc {

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameFooterBytes = 4;

/// Returns the CRC-32C as stored. The mask keeps it useful for data that contain CRCs.
std::uint32_t masked_crc32c(std::string_view bytes);

/// Returns the data as a frame.
std::string frame_of(std::string_view data);

/// Returns the length in a header of kFrameHeaderBytes; nullopt if its CRC is wrong.
std::optional<std::uint64_t> data_bytes_of(std::string_view header);
/// Returns whether a footer of kFrameFooterBytes contains the CRC of the data.
bool matches(std::string_view data, std::string_view footer);

}  // namespace pfc
