// Opens a data set of any layout.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Opens what lies at options.rec in any layout (layouts/layout.h). The size of images in training
/// is image_size, otherwise what the data say, otherwise the size of the first image. Throws
/// InputError.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace pfc
