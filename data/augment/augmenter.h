// Random changes of training images, so that a model sees more than the data hold.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "data/augment/filters.h"

namespace pfc {

/// Applies to each image, in this order:
///
///   crop            a region of 60 to 100 % of its area and of 3/4 to 4/3 of its ratio of sides,
///                   zoomed to the whole image (Szegedy et al., CVPR 2015, with a larger region)
///   low_resolution  50 to 80 % of its rows and columns, and back
///   blur            with a Gaussian of a window of 3 or 5 pixels
///   colour          hue turned by 0 to 20 degrees, saturation times 1 to 1.2
///   grey            without colours
///   cut_out         a square of 10 to 40 % of the shorter side made grey (DeVries and Taylor,
///                   arXiv:1708.04552, with a random size)
///   flip            mirrored left to right, half of the images
///
/// each but flip to the part of the images that the configuration says, chosen independently. The
/// ranges of low_resolution, blur, colour and grey are those of arcface_torch's dali_aug. What
/// happens to an image is a pure function of seed, epoch and its position in the epoch, so that it
/// does not depend on workers and threads. Belongs to one thread.
class Augmenter {
 public:
  Augmenter(const Augmentation& augmentation, std::uint64_t seed)
      : augmentation_(augmentation), seed_(seed) {}

  void augment(std::int64_t epoch, std::int64_t position, ImagePixels image);

 private:
  const Augmentation augmentation_;
  const std::uint64_t seed_;
  FilterScratch scratch_;
};

}  // namespace pfc
