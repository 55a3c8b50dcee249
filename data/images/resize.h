// Another number of rows and columns for an image.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_size.h"

namespace pfc {

/// Resamples rgb [from.height, from.width, 3] to [to.height, to.width, 3] with a triangle filter,
/// whose support grows with the scale where the image becomes smaller: bilinear interpolation that
/// does not alias, as PyTorch's interpolate(mode="bilinear", antialias=True) and Pillow's BILINEAR.
/// What lies beyond a border does not count: the other weights grow. Values as stored, not linear
/// light. The ratio of sides is not kept where the two sizes have another one. The same bytes for
/// the same input; thread-safe.
void resize_rgb(std::span<const std::uint8_t> rgb, ImageSize from, ImageSize to,
                std::span<std::uint8_t> out);

}  // namespace pfc
