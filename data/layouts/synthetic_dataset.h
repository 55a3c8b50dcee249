// Random images that are not on disk, for speed tests.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Value of `rec` for a job without data, as in arcface_torch.
inline constexpr const char* kSyntheticData = "synthetic";

/// Returns options.num_image images of options.num_classes classes. The pixels are one of 256
/// random images and the label is random. Both are pure functions of the image's number, so nothing
/// can be learnt from them. An image is options.image_size pixels high and wide, by default 112,
/// and is stored as JPEG, so that training must decode it. Throws InputError if the number of
/// images or classes is not given.
std::unique_ptr<Dataset> open_synthetic_dataset(const DatasetOptions& options);

}  // namespace pfc
