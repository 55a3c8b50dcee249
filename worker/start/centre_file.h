// Chooses the file in which a worker keeps its tables of class centres (centre_storage disk).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/comm.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "worker/head/head.h"

namespace pfc {

struct CentreFileOptions {
  const JobConfig& job;
  std::string job_id;
  Membership membership;
  bool one_host = true;   ///< now and at the job's first step
  bool exclusive = true;  ///< OutputLock::exclusive(); used on rank 0
  /// Called with the step of the newest checkpoint, before anything is changed; 0: there is none.
  /// Throws if the job must not continue from it.
  std::function<void(std::int64_t step)> expect_step = {};
};

/// Returns HeadOptions::centre_file of this worker.
/// - Without centre_storage disk, or with several hosts, or if another job may use the output
///   folder: as in `head`.
/// - If the newest checkpoint has the same tables of the same workers: takes over their file.
/// - Otherwise: a new file. Rank 0 first removes files that no checkpoint needs, because the disk
///   may lack space for both.
/// Collective. Rank 0 decides for all workers. Throws the errors of newest_checkpoint_of_job() on
/// all of them, and InputError if the file has a later checkpoint whose folder is there.
CentreFile choose_centre_file(Comm& comm, const HeadOptions& head,
                              const CentreFileOptions& options);

}  // namespace pfc
