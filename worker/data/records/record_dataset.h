// A training set in RecordIO: X.rec, with X.idx, `property` and identities.txt beside it.
#pragma once

#include <memory>

#include "worker/data/dataset.h"

namespace pfc {

/// Opens the file options.rec, and X.idx, `property` and identities.txt in the same folder where
/// they exist. Without X.idx it reads through the .rec once. Checks the sizes, record 0, that no
/// key is missing, that the last record is complete, and that the index does not name one record
/// for all images. Warns of records that the index names again and again, or not at all
/// (index_coverage.h).
///
/// In InsightFace's layout record 0 holds no image but the labels [images + 1, images + 1 +
/// identities], and the images are the keys 1 .. images in that order. In any other layout every
/// line of the .idx is an image, in the order of the lines. The number of classes comes from the
/// first of these that there is: `property`, record 0, num_classes, one pass over all labels, which
/// must then be integers of 0 .. 2^24 - 1. Of a vector of labels the first one is the class.
/// Height and width come from `property`, otherwise from the first image.
///
/// Throws InputError; also for more than 2^24 classes, because RecordIO's float32 labels cannot
/// tell them apart.
std::unique_ptr<Dataset> open_record_dataset(const DatasetOptions& options);

}  // namespace pfc
