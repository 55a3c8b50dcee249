// Any data set to a folder of images for each person.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pfcctl/data/writing.h"

namespace pfc {

struct UnpackOptions {
  std::filesystem::path in;   ///< any layout (data/layouts/layout.h)
  std::filesystem::path out;  ///< a folder, made where it is missing
  int threads = 0;            ///< 0: all cores
  double max_damaged = 0.001;
};

struct Unpacked {
  std::int64_t images = 0, classes = 0;
  std::vector<std::string> damaged;
};

/// Writes OUT/PERSON/NUMBER.jpg (.png, .webp), whose bytes are those of the data set, and
/// OUT/train.lst with their labels in the order of the data set, by which the folder is read as the
/// same data set. PERSON is the name that the data give, without what no file's name may have;
/// otherwise, or where two would be the same, the label with as many digits as the last one. Files
/// that an earlier start has written are not written again; train.lst comes last, so that there is
/// none while images are missing. Throws InputError where `out` has a train.lst, where a file is in
/// the place of an image or of the names that no earlier start has written and that holds something
/// else, where `out` is inside of a folder of people that it reads, and for too many damaged
/// images; StorageError.
Unpacked unpack_dataset(const UnpackOptions& options, const ShowProgress& progress);

}  // namespace pfc
