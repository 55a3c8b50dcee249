#include "data/augment/augmenter.h"

#include <algorithm>
#include <cmath>

#include "data/augment/flip.h"
#include "kernels/math/philox.h"

namespace pfc {

namespace {

/// Each change has its own random numbers, so no change affects the random numbers of another one.
/// Flips use 0.
enum class Change : std::uint64_t {
  kCrop = 1,
  kLowResolution = 2,
  kBlur = 3,
  kColour = 4,
  kGrey = 5,
  kCutOut = 6,
  kRandomResizedCrop = 7,  // 7 to 16, a number for each try
};
constexpr std::uint64_t kMostTries = 10;  // as in torchvision

/// Random numbers for one change of one image.
class Draw {
 public:
  Draw(std::uint64_t seed, std::int64_t epoch, std::int64_t position, Change change)
      : words_(random_words(
            seed, Stream::kAugment, static_cast<std::uint32_t>(epoch),
            static_cast<std::uint64_t>(change) << 48 | static_cast<std::uint64_t>(position))) {}

  [[nodiscard]] bool happens(double part) const { return uniform01(words_.x[0]) < part; }
  /// Returns a number uniform in [low, high). REQUIRES: 0 <= i < 3.
  [[nodiscard]] double uniform(int i, double low, double high) const {
    return low + (high - low) * static_cast<double>(uniform01(words_.x[i + 1]));
  }
  /// Returns an integer uniform in 0 .. most.
  [[nodiscard]] std::int64_t integer(int i, std::int64_t most) const {
    return static_cast<std::int64_t>(uniform(i, 0, static_cast<double>(most + 1)));
  }
  [[nodiscard]] std::uint32_t word(int i) const { return words_.x[i + 1]; }

 private:
  Philox4 words_;
};

std::int64_t scaled(std::int64_t side, double factor) {
  return std::clamp<std::int64_t>(std::llround(static_cast<double>(side) * factor), 1, side);
}

/// Places a part of this size in the image. Both coordinates use one word.
ImageRegion place_part(ImageSize part, ImageSize image, std::uint32_t word) {
  const auto place = [](std::uint32_t bits, std::int64_t most) {
    return static_cast<std::int64_t>(bits) * (most + 1) >> 16;
  };
  return {.top = place(word >> 16, image.height - part.height),
          .left = place(word & 0xffff, image.width - part.width),
          .height = part.height,
          .width = part.width};
}

ImageRegion draw_crop(const Draw& draw, ImageSize size) {
  const double area = draw.uniform(0, 0.6, 1);
  const double ratio = std::exp(draw.uniform(1, std::log(3.0 / 4), std::log(4.0 / 3)));
  const ImageSize part{scaled(size.height, std::sqrt(area / ratio)),
                       scaled(size.width, std::sqrt(area * ratio))};
  return place_part(part, size, draw.word(2));
}

ImageRegion draw_square(const Draw& draw, ImageSize size) {
  const std::int64_t side = scaled(std::min(size.height, size.width), draw.uniform(0, 0.1, 0.4));
  return {.top = draw.integer(1, size.height - side),
          .left = draw.integer(2, size.width - side),
          .height = side,
          .width = side};
}

/// Returns the largest region in the centre with an allowed aspect ratio.
ImageRegion central_region(const RandomResizedCrop& crop, ImageSize size) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const auto whole = [](double side) { return std::max<std::int64_t>(1, std::llrint(side)); };
  ImageSize part = size;
  if (width / height < crop.ratio[0]) part.height = whole(width / crop.ratio[0]);
  if (width / height > crop.ratio[1]) part.width = whole(height * crop.ratio[1]);
  return {.top = (size.height - part.height) / 2,
          .left = (size.width - part.width) / 2,
          .height = part.height,
          .width = part.width};
}

}  // namespace

ImageRegion Augmenter::region(std::int64_t epoch, std::int64_t position, ImageSize own) const {
  const RandomResizedCrop& crop = *augmentation_.random_resized_crop;
  const auto area = static_cast<double>(own.height * own.width);
  for (std::uint64_t number = 0; number < kMostTries; ++number) {
    const Draw draw(seed_, epoch, position,
                    Change{static_cast<std::uint64_t>(Change::kRandomResizedCrop) + number});
    const double part = area * draw.uniform(0, crop.scale[0], crop.scale[1]);
    const double ratio =
        std::exp(draw.uniform(1, std::log(crop.ratio[0]), std::log(crop.ratio[1])));
    const ImageSize drawn{std::llrint(std::sqrt(part / ratio)),
                          std::llrint(std::sqrt(part * ratio))};
    const auto fits = [](std::int64_t side, std::int64_t most) { return side > 0 && side <= most; };
    if (fits(drawn.height, own.height) && fits(drawn.width, own.width)) {
      return place_part(drawn, own, draw.word(2));
    }
  }
  return central_region(crop, own);
}

void Augmenter::decode(ImageDecoder& decoder, std::span<const std::byte> encoded,
                       std::int64_t epoch, std::int64_t position, ImagePixels image) const {
  if (!augmentation_.random_resized_crop) return decoder.decode(encoded, image.size, image.rgb);
  const auto choose = [&](ImageSize own) { return region(epoch, position, own); };
  decoder.decode_region(encoded, choose, image.size, image.rgb);
}

void Augmenter::augment(std::int64_t epoch, std::int64_t position, ImagePixels image) {
  const Augmentation& a = augmentation_;
  const ImageSize size = image.size;
  const auto when = [&](double part, Change change, const auto& work) {
    if (part <= 0) return;
    const Draw draw(seed_, epoch, position, change);
    if (draw.happens(part)) work(draw);
  };
  when(a.crop, Change::kCrop,
       [&](const Draw& draw) { zoom(image, draw_crop(draw, size), scratch_); });
  when(a.low_resolution, Change::kLowResolution, [&](const Draw& draw) {
    const double factor = draw.uniform(0, 0.5, 0.8);
    lower_resolution(image, {scaled(size.height, factor), scaled(size.width, factor)}, scratch_);
  });
  when(a.blur, Change::kBlur, [&](const Draw& draw) {
    // The window must not extend beyond the mirrored image.
    const std::int64_t most = std::min(size.height, size.width) - 1;
    const auto radius = static_cast<int>(std::min(1 + draw.integer(0, 1), most));
    if (radius > 0) blur(image, radius, scratch_);
  });
  when(a.colour, Change::kColour, [&](const Draw& draw) {
    transform_colours(image, hue_and_saturation(draw.uniform(0, 0, 20), draw.uniform(1, 1, 1.2)));
  });
  when(a.grey, Change::kGrey, [&](const Draw&) { turn_grey(image); });
  when(a.cut_out, Change::kCutOut,
       [&](const Draw& draw) { cut_out(image, draw_square(draw, size)); });
  if (a.flip && flips(seed_, epoch, position)) flip_horizontally(image.rgb, size.width);
}

}  // namespace pfc
