// Opens a data set of any layout.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Opens the data set at options.rec in any layout (layouts/layout.h). The size of images in
/// training is image_size; if that is not set, the size given in the data; otherwise that of the
/// first image. If options.overlay is given, num_classes and num_image are checked after its
/// changes. Throws InputError.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace pfc
