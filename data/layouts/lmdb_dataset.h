// Training sets in LMDB.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Opens the file options.rec (data.mdb) without liblmdb (lmdb_reader.h). The first value in the
/// file determines the kind of all values:
///
///   a pickle of (image, label)       as folder2lmdb and its many copies write it: read by
///                                    pickle/pickle.h, which runs no code
///   Caffe's Datum                    with an encoded image
///   an image                         whose label is in a line "KEY LABEL" of labels.txt in the
///                                    same folder
///   an image, and a label as text    under the keys image-NUMBER and label-NUMBER
///
/// If there are keys label-NUMBER, everything except images and their labels is skipped with a
/// warning. Keys that start with "__", and "num-samples", describe the database and are not
/// images. Images are ordered by number if all keys are numbers, otherwise by the bytes of the
/// keys. `property` in the same folder specifies classes and size. Without it and without
/// num_classes, labels inside values are read in one pass. Throws InputError.
std::unique_ptr<Dataset> open_lmdb_dataset(const DatasetOptions& options);

}  // namespace pfc
