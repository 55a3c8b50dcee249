// Chooses the file in which a worker keeps its tables of class centres (centre_storage disk).
#pragma once

#include <string>

#include "comm/comm.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "worker/checkpoint/output_lock.h"
#include "worker/head/head.h"

namespace pfc {

struct CentreFileOptions {
  const JobConfig& job;
  std::string job_id;
  Membership membership;
  bool shared = true;                ///< all workers see the output folder
  const OutputLock* lock = nullptr;  ///< on rank 0
};

/// Returns HeadOptions::centre_file of this worker.
/// - Without centre_storage disk, or if some workers do not see the output folder: as in `head`.
/// - If the newest checkpoint has the same tables of the same workers: takes over their file.
/// - Otherwise: a new file. Rank 0 first removes files that no checkpoint needs, because the disk
///   may lack space for both.
/// Collective. Throws the errors of newest_checkpoint_of_job() on all workers.
CentreFile choose_centre_file(Comm& comm, const HeadOptions& head,
                              const CentreFileOptions& options);

}  // namespace pfc
