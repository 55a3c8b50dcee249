// Checks whether a job can start with its `output` and `init_from`. Used by a worker when it
// starts, and by `pfcctl plan` before a job. Changes nothing.
#pragma once

#include "worker/memory/memory_plan.h"

namespace pfc {

/// Throws StorageError if `output` cannot be created or written as a folder, or if something other
/// than a regular file has the name of its model file. Files that exist only while a job runs,
/// such as its lock, are checked when the lock is taken.
void check_output(const JobConfig& job);

/// Throws InputError if `output` has a checkpoint but the job does not resume. Also throws if the
/// checkpoint is of another model, if its job had the same data sets in another order, or if one of
/// its files is missing or has the wrong size. Without a checkpoint, throws if the weights of
/// `init_from` are for another network. Checksums are checked when a checkpoint is loaded.
/// REQUIRES: the size of the images is known. Takes about 0.1 s with an init_from.
void check_start_weights(const PlannedJob& planned);

}  // namespace pfc
