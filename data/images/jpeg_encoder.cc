#include "data/images/jpeg_encoder.h"

#include <turbojpeg.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/error.h"

namespace pfc {

std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> rgb, int height, int width,
                                   int quality) {
  check(rgb.size() == static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3,
        "encode_jpeg: pixels do not match height and width");
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy> compressor(tjInitCompress());
  check(compressor != nullptr, "tjInitCompress failed");
  unsigned long size = tjBufSize(width, height, TJSAMP_420);
  std::vector<std::byte> bytes(size);
  auto* buffer = reinterpret_cast<unsigned char*>(bytes.data());
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_NOREALLOC;
  if (tjCompress2(compressor.get(), rgb.data(), width, 0, height, TJPF_RGB, &buffer, &size,
                  TJSAMP_420, quality, flags) != 0) {
    throw std::runtime_error(std::string("JPEG encoding failed: ") +
                             tjGetErrorStr2(compressor.get()));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace pfc
