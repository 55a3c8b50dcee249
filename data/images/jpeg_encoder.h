// Encodes RGB pixels as JPEG with libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

/// Encodes rgb [height, width, 3] with quality 1 .. 100 and half-resolution chroma. Deterministic
/// and thread-safe. Throws std::runtime_error with libjpeg-turbo's reason.
std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> rgb, int height, int width,
                                   int quality);

}  // namespace pfc
