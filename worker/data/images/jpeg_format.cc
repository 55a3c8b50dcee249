// JPEG, with libjpeg-turbo.
#include <turbojpeg.h>

#include <span>
#include <string>

#include "common/error.h"
#include "worker/data/damaged_image.h"
#include "worker/data/images/formats.h"

namespace pfc {

namespace {

class JpegFormat final : public ImageFormat {
 public:
  [[nodiscard]] const char* name() const override { return "JPEG"; }

  [[nodiscard]] ImageSize size(std::span<const std::byte> encoded) override {
    int width = 0, height = 0, subsampling = 0, colours = 0;
    if (tjDecompressHeader3(handle_.get(), data(encoded), encoded.size(), &width, &height,
                            &subsampling, &colours) != 0) {
      fail();
    }
    return {height, width};
  }

  /// The inverse DCT of fewer coefficients gives a block of fewer pixels: M/8 of the image.
  [[nodiscard]] ImageSize reduced(ImageSize own, ImageSize wanted) override {
    ImageSize best = own;
    for (const tjscalingfactor& factor : factors_) {
      const ImageSize scaled{TJSCALED(own.height, factor), TJSCALED(own.width, factor)};
      const bool enough = scaled.height >= wanted.height && scaled.width >= wanted.width;
      if (enough && scaled.height <= best.height && scaled.width <= best.width) best = scaled;
    }
    return best;
  }

  void decode(std::span<const std::byte> encoded, ImageSize size,
              std::span<std::uint8_t> rgb) override {
    // STOPONWARNING: a half-decoded face would be trained on as if it were whole. LIMITSCANS bounds
    // the time that a hostile progressive file can take.
    constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle_.get(), data(encoded), encoded.size(), rgb.data(),
                      static_cast<int>(size.width), 0, static_cast<int>(size.height), TJPF_RGB,
                      kFlags) != 0) {
      fail();
    }
  }

 private:
  struct Destroy {
    void operator()(void* h) const { tjDestroy(h); }
  };
  using Handle = std::unique_ptr<void, Destroy>;

  static Handle make_handle() {
    Handle made(tjInitDecompress());
    check(made != nullptr, "libjpeg-turbo: no decompressor");
    return made;
  }
  static std::span<const tjscalingfactor> scaling_factors() {
    int count = 0;
    const tjscalingfactor* first = tjGetScalingFactors(&count);
    return {first, first == nullptr ? 0 : static_cast<std::size_t>(count)};
  }
  static const unsigned char* data(std::span<const std::byte> encoded) {
    return reinterpret_cast<const unsigned char*>(encoded.data());
  }
  [[noreturn]] void fail() {
    const std::string reason = tjGetErrorStr2(handle_.get());
    // A handle that failed inside a header would go on there with the next image.
    handle_ = make_handle();
    throw DamagedImage("a JPEG that does not decode: " + reason);
  }

  Handle handle_ = make_handle();
  const std::span<const tjscalingfactor> factors_ = scaling_factors();
};

}  // namespace

std::unique_ptr<ImageFormat> make_jpeg_format() { return std::make_unique<JpegFormat>(); }

}  // namespace pfc
