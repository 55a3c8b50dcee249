// A verification set as a data set.
#pragma once

#include <memory>

#include "data/open_dataset.h"
#include "model/evaluation/verification_bin.h"

namespace pfc {

/// Returns the images of a verification set with labels of people. Image i is image i of the set.
/// The images of a genuine pair show one person, and so do images with the same bytes. All others
/// count as different people, although some may show the same person.
std::unique_ptr<Dataset> dataset_of_pairs(VerificationSet set);

/// Opens a verification set (X.bin), or a data set of any layout like open_dataset().
std::unique_ptr<Dataset> open_pairs_or_dataset(const DatasetOptions& options);

}  // namespace pfc
