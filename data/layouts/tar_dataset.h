// WebDataset shards: tar archives whose members with the same name up to the first dot make one
// sample, for example n0001/0007.jpg and n0001/0007.cls.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// A sample needs an image (.jpg, .jpeg, .png, .webp) and a label: the text of .cls or .index, an
/// integer from 0, or "label", "cls" or "class" of the object in .json. Its members follow each
/// other. The shards' images come in the order of the shards and of the members. Further members
/// are left out; samples without an image or label, and second images, are counted in a warning.
/// identities.txt beside the first shard names the people.
///
/// Opening reads the headers of all members (ustar, with pax and GNU long names) and the labels,
/// not the images; reading seeks. Throws InputError that names shard, offset and member where an
/// archive is cut short or damaged, and where a label is none.
std::unique_ptr<Dataset> open_tar_dataset(const std::vector<std::filesystem::path>& shards,
                                          const DatasetOptions& options);

}  // namespace pfc
