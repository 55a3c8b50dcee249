// Training sets in LMDB.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Opens the file options.rec (data.mdb), whose values are read without liblmdb (lmdb_reader.h) and
/// are one of these, as the first of them shows:
///
///   a pickle of (image, label)       as folder2lmdb and its many copies write it: read by
///                                    pickle/pickle.h, which runs no code
///   Caffe's Datum                    with an encoded image
///   an image                         whose label is in a line "KEY LABEL" of labels.txt beside it
///   an image, and a label as text    under the keys image-NUMBER and label-NUMBER
///
/// Where there are keys label-NUMBER, all but images and their labels are left out with a warning.
/// Keys that begin with "__" and "num-samples" describe the database and are no images. Images have
/// the order of their numbers where all keys are numbers, otherwise that of the keys' bytes.
/// `property` beside the file says classes and size; without it, and without num_classes, labels
/// within values are read in one pass. Throws InputError.
std::unique_ptr<Dataset> open_lmdb_dataset(const DatasetOptions& options);

}  // namespace pfc
