// Detects the layout of a data set from what is at a path.
//
//   X.rec, or a folder with train.rec    RecordIO (records/record_dataset.h)
//   a folder with train-00000.rec, ...,  several RecordIO files as one data set
//   or part-{000..041}.rec
//   X.lst, or a folder with train.lst    a list: index, tab, label, tab, path of an image
//   X.tsv, or a folder with train.tsv    a list: path of an image, tab, label
//   X.txt, or a folder with label.txt    the same, as in PLSC
//   and images
//   X.tar, a folder with *.tar,          WebDataset shards (tar_dataset.h)
//   or shard-{000..041}.tar
//   X.mdb, X.lmdb, a folder with data.mdb  LMDB (lmdb_dataset.h)
//   X.safetensors, X.npy, a folder with    embeddings (embedding_dataset.h)
//   embeddings.safetensors or embeddings.npy
//   a folder of folders with images      one folder for each person (file_dataset.h)
//   the word "synthetic"                 random images (synthetic_dataset.h)
//
// The first match is used: a train.tsv next to a train.rec is not read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

enum class Layout { kRecordIO, kList, kTsv, kTar, kLmdb, kSafetensors, kNpy, kFolder, kSynthetic };

struct Location {
  Layout layout = Layout::kRecordIO;
  /// Paths for the reader of that layout: one file or folder, or all shards in order.
  std::vector<std::filesystem::path> paths;
};

/// Finds the layout. The numbers of train-0.rec, train-1.rec ... or train_0.rec ... must be
/// contiguous. Throws InputError that says what is at `rec` if it is not a data set, or not a
/// complete one.
Location find_layout(const std::filesystem::path& rec);

/// Returns the files for a name with {000..041}, in ascending order. The numbers have as many
/// digits as the first one. Returns a name without braces unchanged. Throws InputError for braces
/// that are not such a range, and for more than a million files.
std::vector<std::filesystem::path> expand_braces(const std::filesystem::path& pattern);

/// Returns the extension of a file in lower case, such as ".jpg".
std::string lower_case_ending(const std::filesystem::path& path);

/// Returns whether a file or folder is not part of a data set: hidden files, and folders that
/// Synology servers or macOS archives add.
bool is_ignored_name(std::string_view name);

/// Returns whether a file has an image's extension: .jpg, .jpeg, .png, .webp, in any case.
bool is_image_name(const std::filesystem::path& name);

}  // namespace pfc
