// Converts any data set to a folder of images for each person.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pfcctl/data/writing.h"

namespace pfc {

struct UnpackOptions {
  std::filesystem::path in;   ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;  ///< a folder, created if missing
  int threads = 0;            ///< 0: all cores
  double max_damaged = 0.001;
};

struct Unpacked {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;
};

/// Writes OUT/PERSON/NUMBER.jpg (.png, .webp) with the bytes of the data set, and OUT/train.lst
/// with their labels in the order of the data set. With this list the folder is read as the same
/// data set. PERSON is the name in the data, without characters that a file name cannot have. If
/// the name is missing, not unique or reserved for other files, PERSON is the label with leading
/// zeros. Does not write files again that an earlier run has written. Writes train.lst last, so it
/// is missing while images are missing. Throws InputError if `out` has a train.lst; if a file with
/// other content, not written by an earlier run, is in the place of an image or of the names; if
/// `out` is inside a folder of people that it reads; and for too many damaged images. Throws
/// StorageError.
Unpacked unpack_dataset(const UnpackOptions& options, const ShowProgress& progress);

}  // namespace pfc
