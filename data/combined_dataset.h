// Combines several data sets into one.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/identity_names.h"

namespace pfc {

/// Whether a person who is in two data sets has one class or two.
enum class SharedIdentities {
  kNone,    ///< the classes of each set follow the classes of the previous set
  kByName,  ///< classes of the same name become one: the class of the first set that has it
};

struct PartDataset {
  std::unique_ptr<Dataset> dataset;
  IdentityNames names;  ///< by label; empty: uses the names in the data set
};

/// Returns the images of all parts, one part after another. The classes of a part keep their order.
/// kByName: the classes of the first part come first, then the classes that only the second part
/// has, and so on. All images have the size of the first part's images; others are resized.
/// DatasetInfo::part_classes has the number of classes that each part added, part_images the number
/// of images in each part.
///
/// Throws InputError for kByName if a class has no name, or if two classes of a part have the same
/// name. REQUIRES: parts is not empty.
std::unique_ptr<Dataset> combine_datasets(std::vector<PartDataset> parts, SharedIdentities shared);

}  // namespace pfc
