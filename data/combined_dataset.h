// Several data sets as one.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/identity_names.h"

namespace pfc {

/// Whether the same person in two data sets has one class or two.
enum class SharedIdentities {
  kNone,    ///< the classes of each set come behind those of the set before
  kByName,  ///< classes with the same name are one, with the number of the first of them
};

struct PartDataset {
  std::unique_ptr<Dataset> dataset;
  IdentityNames names;  ///< by label; none: those that the data set itself gives
};

/// The images of all parts, one part behind the other. The classes of a part keep their order.
/// kByName: the classes of the first part come first, then those of the second that the first does
/// not have, and so on. The images have the size of the first part's, and those of other parts are
/// resized. DatasetInfo::part_classes says how many classes each part has added, part_images how
/// many images.
///
/// Throws InputError where parts are named wrongly: kByName with a class that has no name, or with
/// two of one part that have the same one. REQUIRES: parts is not empty.
std::unique_ptr<Dataset> combine_datasets(std::vector<PartDataset> parts, SharedIdentities shared);

}  // namespace pfc
