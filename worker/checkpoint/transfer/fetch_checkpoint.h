// Fetches the newest checkpoint if hosts do not share the output folder. It may be on a host that
// had rank 0 in an earlier generation.
#pragma once

#include <string>

#include "comm/comm.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/output_links.h"

namespace pfc {

/// Copies this job's newest checkpoint to rank 0's folder if another host has a newer one.
/// Verifies every file. Ignores checkpoints of other jobs. Returns on rank 0 what was copied;
/// empty: nothing. `host`: a communicator for host memory. Collective. Throws InputError,
/// StorageError, CommError. REQUIRES: options.links is set.
std::string fetch_newest_checkpoint(Comm& host, const CheckpointOptions& options);

}  // namespace pfc
