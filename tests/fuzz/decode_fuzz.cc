// Images: any bytes either decode or are damaged.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/data/damaged_image.h"
#include "worker/data/images/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto encoded = std::as_bytes(std::span(data, size));
  try {
    pfc::ImageDecoder decoder;
    const pfc::ImageSize found = decoder.size(encoded);
    if (found.height > 64 || found.width > 64) return 0;  // fast, so that more is tried
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(found.height * found.width * 3));
    decoder.decode(encoded, found, rgb);
  } catch (const pfc::DamagedImage&) {
  }
  return 0;
}
