// Pixel operations of the augmentations, for given strengths.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/images/image_size.h"

namespace pfc {

/// rgb [size.height, size.width, 3]; the functions below change it in place.
struct ImagePixels {
  std::span<std::uint8_t> rgb;
  ImageSize size;
};

/// Memory that filters reuse. Used by one thread.
struct FilterScratch {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> sums;
};

/// Enlarges the region to the size of the image (images/resize.h). REQUIRES: the region is inside
/// the image.
void zoom(ImagePixels image, const ImageRegion& region, FilterScratch& scratch);

/// Reduces the image and enlarges it again (images/resize.h). REQUIRES: 0 < smaller.
void lower_resolution(ImagePixels image, ImageSize smaller, FilterScratch& scratch);

/// Convolves with a Gaussian over a window of 2 * radius + 1 pixels. Its standard deviation is
/// that of OpenCV and DALI for such a window: 0.3 * (radius - 1) + 0.8. Pixels beyond the border
/// are mirrored, without repeating the border pixel. REQUIRES: radius is 1 or 2, and less than the
/// number of rows and columns.
void blur(ImagePixels image, int radius, FilterScratch& scratch);

/// Three rows of three factors, in units of 1/4096.
using ColourMatrix = std::array<std::int32_t, 9>;
/// Returns the matrix that rotates the hue by `hue` degrees and multiplies the saturation: in YIQ
/// (NTSC, 1953) a rotation and scaling of I and Q that keeps the luma. Same as DALI's hsv and
/// color_twist, which turn red towards yellow.
ColourMatrix hue_and_saturation(double hue, double saturation);
/// Multiplies each pixel's colour by the matrix, rounds, and clamps to 0 .. 255.
void transform_colours(ImagePixels image, const ColourMatrix& matrix);

/// Sets all channels to the luma 0.299 R + 0.587 G + 0.114 B.
void turn_grey(ImagePixels image);

/// Sets the region to 128, which is nearly 0 for the network. REQUIRES: it is inside the image.
void cut_out(ImagePixels image, const ImageRegion& region);

}  // namespace pfc
