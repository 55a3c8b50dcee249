// Ends jobs of killed coordinators that still write into this job's output folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/cluster/job.h"
#include "coordinator/takeover/find_journals.h"

namespace pfc {

/// Ends each job of these journals whose local agent still runs and whose output folder is that of
/// `job`. The workers of such a job write a checkpoint first. Waits less than a minute for each,
/// then deletes its journal. Releases the journals of jobs with other output folders, and does
/// not end those jobs. Calls `tell` with a line before each wait. Throws InputError, and ends no
/// job, if `job` would not resume from such a checkpoint.
void end_rivals(std::vector<FoundJournal> journals, const Job& job,
                const std::function<void(const std::string& line)>& tell);

}  // namespace pfc
