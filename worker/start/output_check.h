// Whether a job can begin in its `output`, and with its `init_from`: what a worker finds there when
// it starts, and `pfcctl plan` before. Only looks, and changes nothing.
#pragma once

#include "worker/memory/memory_plan.h"

namespace pfc {

/// Throws StorageError where `output` is no folder that can be made or written, or something else
/// than a regular file is in the place of the model's file there. What is there while a job runs,
/// as its lock, is checked when the lock is taken.
void check_output(const JobConfig& job);

/// Throws InputError where `output` has a checkpoint that this job is not to resume, that is of
/// another model, or whose job had the same data sets in another order, and, where it has none,
/// when the weights of `init_from` are not of this job's network, or the checkpoint lacks a file or
/// has one of another size. Checksums are checked when a checkpoint is loaded. REQUIRES: the size
/// of the images is known. Takes about 0.1 s where there is an init_from.
void check_start_weights(const PlannedJob& planned);

}  // namespace pfc
