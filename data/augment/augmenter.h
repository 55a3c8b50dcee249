// Random changes of training images, which increase the variety of the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/config/config.h"
#include "data/augment/filters.h"
#include "data/images/decode.h"

namespace pfc {

/// Applies these changes to each image, in this order:
///
///   random_resized_crop
///                   a region of 8 to 100 % of the area with an aspect ratio of 3/4 to 4/3,
///                   resized to the image for training (Szegedy et al., CVPR 2015, drawn like
///                   torchvision's)
///   crop            60 to 100 % of the area, aspect ratio changed by 3/4 to 4/3, zoomed to the
///                   whole image (Szegedy et al., CVPR 2015, with a larger region)
///   low_resolution  reduced to 50 to 80 % of its rows and columns, then enlarged again
///   blur            Gaussian with a window of 3 or 5 pixels
///   colour          hue rotated by 0 to 20 degrees, saturation times 1 to 1.2
///   grey            converted to grey
///   cut_out         a square of 10 to 40 % of the shorter side made grey (DeVries and Taylor,
///                   arXiv:1708.04552, with a random size)
///   flip            mirrored left to right, half of the images
///
/// The first change is made to all images. For the others, except flip, the configuration sets the
/// fraction of images; the choices are independent. The ranges of low_resolution, blur, colour and
/// grey are those of arcface_torch's dali_aug. The result is a pure function of seed, epoch and the
/// image's position in the epoch, so it does not depend on workers and threads. Used by one thread.
class Augmenter {
 public:
  Augmenter(const Augmentation& augmentation, std::uint64_t seed)
      : augmentation_(augmentation), seed_(seed) {}

  /// Returns the region of an image of this size for random_resized_crop. REQUIRES:
  /// random_resized_crop is configured.
  [[nodiscard]] ImageRegion region(std::int64_t epoch, std::int64_t position, ImageSize own) const;
  /// Decodes the image, or with random_resized_crop only this region of it. Throws the errors of
  /// the decoder.
  void decode(ImageDecoder& decoder, std::span<const std::byte> encoded, std::int64_t epoch,
              std::int64_t position, ImagePixels image) const;
  /// Makes all changes except random_resized_crop.
  void augment(std::int64_t epoch, std::int64_t position, ImagePixels image);

 private:
  const Augmentation augmentation_;
  const std::uint64_t seed_;
  FilterScratch scratch_;
};

}  // namespace pfc
