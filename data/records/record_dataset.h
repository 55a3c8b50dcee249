// A training set in RecordIO: X.rec, with X.idx, `property` and identities.txt beside it, or
// several such files.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "data/dataset.h"

namespace pfc {

/// Opens the files `recs` as one data set whose labels have one common meaning: images in the order
/// of the files. Beside each X.rec there may be its X.idx; without it the file is read through once
/// (record_part.h). `property` and identities.txt are those in the folder of the first file, and
/// are of all files together. Warns of records that an index names again and again, or not at all.
///
/// In InsightFace's layout record 0 holds no image but the labels [images + 1, images + 1 +
/// identities], and the images are the keys 1 .. images in that order. In any other layout every
/// line of the .idx is an image, in the order of the lines. The number of classes comes from the
/// first of these that there is: `property`, record 0 of a single file, num_classes, one pass over
/// all labels, which must then be integers of 0 .. 2^24 - 1. Of a vector of labels the first one is
/// the class. Height and width come from `property`, otherwise from the first image.
///
/// Throws InputError; also for more than 2^24 classes, because RecordIO's float32 labels cannot
/// tell them apart. REQUIRES: recs is not empty.
std::unique_ptr<Dataset> open_record_dataset(std::span<const std::filesystem::path> recs,
                                             const DatasetOptions& options);

}  // namespace pfc
