// Training sets of image files: a folder for each person, or a list.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace pfc {

/// Opens a folder of folders: each folder in options.rec is one person, and contains that person's
/// images at any depth. Labels are in the order of folder names, images in the order of paths,
/// both by bytes. Follows links, except those to a folder that contains them. Skips files without
/// an image's extension, hidden files and empty folders, and counts them in a warning.
std::unique_ptr<Dataset> open_folder_dataset(const DatasetOptions& options);

/// Opens the text file options.rec with one line per image:
///   index, tab, label, tab, path    X.lst, as MXNet's im2rec writes it
///   1, tab, path, tab, label        X.lst, as face2rec2 reads it; landmarks may follow
///   path, tab or blank, label       X.tsv, X.txt; a first line without a number is a heading
/// Paths are relative to the list's folder, or to its sub-folder `images` if the first image is
/// there. "\\" in a path is read as "/". Images keep the order of the lines. Empty lines are
/// ignored.
std::unique_ptr<Dataset> open_list_dataset(const DatasetOptions& options);
std::unique_ptr<Dataset> open_tsv_dataset(const DatasetOptions& options);

// Both functions throw InputError that names file and line, what was found and what was expected.
// Reading an unreadable image throws DamagedImage. More than 2^24 classes are possible: labels are
// int64.

}  // namespace pfc
