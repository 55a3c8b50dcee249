// WebDataset shards: tar archives. Members with the same name up to the first dot form one sample,
// for example n0001/0007.jpg and n0001/0007.cls.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// A sample needs an image (.jpg, .jpeg, .png, .webp) and a label: the text of .cls or .index, an
/// integer from 0; or "label", "cls" or "class" of the object in .json. The members of a sample
/// must be adjacent. Images are in the order of the shards and members. Other members are skipped;
/// samples without an image or label, and extra images, are counted in a warning. identities.txt
/// next to the first shard contains the names.
///
/// Opening reads the headers of all members (ustar, with pax and GNU long names) and the labels,
/// but skips the images. Throws InputError that names shard, offset and member if an archive is
/// truncated or damaged, or a label is invalid.
std::unique_ptr<Dataset> open_tar_dataset(const std::vector<std::filesystem::path>& shards,
                                          const DatasetOptions& options);

}  // namespace pfc
