// RGB pixels to JPEG bytes, with libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

/// rgb [height, width, 3]; quality 1 .. 100; chroma of half the resolution. The same bytes for the
/// same input; thread-safe. Throws std::runtime_error with libjpeg-turbo's reason.
std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> rgb, int height, int width,
                                   int quality);

}  // namespace pfc
