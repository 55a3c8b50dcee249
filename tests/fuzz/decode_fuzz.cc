// Decoding images: any bytes are either an image or a DamagedImage.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/encoded_images.h"

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const auto drawn = testing::draw_waves(16, 16, 1);
  std::vector<std::string> all;
  for (const auto& bytes : {testing::encode_jpeg(drawn, 16, 16), testing::encode_png(drawn, 16, 16),
                            testing::encode_webp(drawn, 16, 16)}) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto encoded = std::as_bytes(std::span(data, size));
  try {
    pfc::ImageDecoder decoder;
    const pfc::ImageSize found = decoder.size(encoded);
    // Only small images are decoded: they are fast, so more inputs are tried.
    if (found.height > 64 || found.width > 64) return 0;
    std::vector<std::uint8_t> rgb(static_cast<std::size_t>(found.height * found.width * 3));
    decoder.decode(encoded, found, rgb);
    std::vector<std::uint8_t> other(7 * 9 * 3);
    decoder.decode(encoded, {7, 9}, other);
  } catch (const pfc::DamagedImage&) {
  }
  return 0;
}
