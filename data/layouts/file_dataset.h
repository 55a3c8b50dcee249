// Training sets whose images are files: a folder for each person, or a list.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// A folder of folders: each folder in options.rec is one person, and the images in it, at any
/// depth, are that person's. Labels follow the names of the folders, images their paths, both in
/// the order of their bytes. Links are followed, but not into a folder that contains them. Files
/// that are no images by their names, hidden files and empty folders are left out and counted in a
/// warning.
std::unique_ptr<Dataset> open_folder_dataset(const DatasetOptions& options);

/// A text file, options.rec, with a line for each image:
///   index, tab, label, tab, path    X.lst, as MXNet's im2rec writes it
///   1, tab, path, tab, label        X.lst, as face2rec2 reads it; landmarks may follow
///   path, tab or blank, label       X.tsv, X.txt; a first line without a number is a heading
/// Paths are relative to the list's folder, or to its sub-folder `images` if the first image is in
/// there. "\\" in a path is read as "/". Images keep the order of the lines. Empty lines do not
/// count.
std::unique_ptr<Dataset> open_list_dataset(const DatasetOptions& options);
std::unique_ptr<Dataset> open_tsv_dataset(const DatasetOptions& options);

// All throw InputError that names file and line, what was found and what was expected. An image
// that cannot be read is a DamagedImage when it is read. More than 2^24 classes are fine: labels
// are int64.

}  // namespace pfc
