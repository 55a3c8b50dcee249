// Resizes and crops images.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_size.h"

namespace pfc {

/// Resamples rgb [from.height, from.width, 3] to [to.height, to.width, 3] with a triangle filter,
/// whose support grows with the scale when shrinking. This is bilinear interpolation without
/// aliasing, like PyTorch's interpolate(mode="bilinear", antialias=True) and Pillow's BILINEAR.
/// Pixels beyond a border do not count, and the other weights grow. Works on the stored values, not
/// on linear light. If the two sizes have different aspect ratios, the image is distorted.
/// Deterministic and thread-safe.
void resize_rgb(std::span<const std::uint8_t> rgb, ImageSize from, ImageSize to,
                std::span<std::uint8_t> out);

/// Copies a region of rgb [size.height, size.width, 3] to out [region.height, region.width, 3].
/// `out` may be the beginning of `rgb`. REQUIRES: the region is inside the image.
void copy_region(std::span<const std::uint8_t> rgb, ImageSize size, const ImageRegion& region,
                 std::span<std::uint8_t> out);

}  // namespace pfc
