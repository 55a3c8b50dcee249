// A training set in RecordIO: one or more X.rec with X.idx, `property` and identities.txt.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "data/dataset.h"

namespace pfc {

/// Opens the files `recs` as one data set with a common set of labels; images are in the order of
/// the files. Each X.rec may have an X.idx; without it the file is scanned once (record_part.h).
/// `property` and identities.txt are in the folder of the first file and apply to all files. Warns
/// about records that an index contains repeatedly or not at all.
///
/// In InsightFace's layout record 0 contains no image. It has the labels [images + 1, images + 1 +
/// identities], and the images are the keys 1 .. images in that order. In any other layout every
/// line of the .idx is an image, in the order of the lines. The number of classes comes from the
/// first available of: `property`, record 0 of a single file, num_classes, one pass over all
/// labels, which must then be integers of 0 .. 2^24 - 1. If a record has several labels, the first
/// one is the class. Height and width come from `property`, otherwise from the first image.
///
/// Throws InputError, also for more than 2^24 classes, because RecordIO's float32 labels cannot
/// distinguish them. REQUIRES: recs is not empty.
std::unique_ptr<Dataset> open_record_dataset(std::span<const std::filesystem::path> recs,
                                             const DatasetOptions& options);

}  // namespace pfc
