// What augmentations do to the pixels of an image, given their strengths.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/images/image_size.h"

namespace pfc {

/// rgb [size.height, size.width, 3]; each function changes it in place.
struct ImagePixels {
  std::span<std::uint8_t> rgb;
  ImageSize size;
};

/// A rectangle of pixels: rows top .. top + height - 1, columns left .. left + width - 1.
struct ImageRegion {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Memory that filters use again and again. Belongs to one thread.
struct FilterScratch {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> sums;
};

/// The region in the size of the whole image (images/resize.h). REQUIRES: it lies inside.
void zoom(ImagePixels image, const ImageRegion& region, FilterScratch& scratch);

/// Made smaller and then as large as before, by images/resize.h. REQUIRES: 0 < smaller.
void lower_resolution(ImagePixels image, ImageSize smaller, FilterScratch& scratch);

/// Convolved with a Gaussian of a window of 2 * radius + 1 pixels, whose deviation is that of
/// OpenCV and DALI for such a window: 0.3 * (radius - 1) + 0.8. Beyond a border lies the mirrored
/// image, without the pixel at the border. REQUIRES: radius 1 or 2, fewer than the image has rows
/// and columns.
void blur(ImagePixels image, int radius, FilterScratch& scratch);

/// Three rows of three factors, in units of 1/4096.
using ColourMatrix = std::array<std::int32_t, 9>;
/// Turns the hue by `hue` degrees and multiplies the saturation: in YIQ (NTSC, 1953), where the
/// luma stays, a rotation and a scaling of I and Q. As DALI's hsv and color_twist, which turn
/// red towards yellow.
ColourMatrix hue_and_saturation(double hue, double saturation);
/// Each pixel's colour multiplied by the matrix, rounded, and cut to 0 .. 255.
void transform_colours(ImagePixels image, const ColourMatrix& matrix);

/// Every channel is the luma 0.299 R + 0.587 G + 0.114 B.
void turn_grey(ImagePixels image);

/// 128 in all channels of the region: nearly 0 for the network. REQUIRES: it lies inside.
void cut_out(ImagePixels image, const ImageRegion& region);

}  // namespace pfc
