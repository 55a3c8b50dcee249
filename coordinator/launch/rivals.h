// Jobs of killed coordinators whose workers still write where those of this one will.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/jobs/job.h"
#include "coordinator/journal/takeover.h"

namespace pfc {

/// Ends, in good order, each job of these journals whose coordinator's own agent still runs, and
/// that has the output folder of `job`: its workers write a checkpoint together, and it is waited
/// for, less than a minute. Its journal goes then. Jobs with another output folder are left alone,
/// and their journals are free when the first one is waited for. `tell` gets a line about each that
/// is ended, before it is waited for. Throws InputError, and ends none, where `job` would not go on
/// from such a checkpoint: it would refuse to begin.
void end_rivals(std::vector<FoundJournal> journals, const Job& job,
                const std::function<void(const std::string& line)>& tell);

}  // namespace pfc
