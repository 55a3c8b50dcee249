// The hosts that a scheduler has given to this job, read from the environment: no SSH, and no
// program of the scheduler, is asked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// Who gives out the hosts, and starts an agent on each.
enum class Launcher { kSlurm, kMpi, kKubernetes };

/// The hosts in the scheduler's order, at most kMaxHosts. Slots are 0 where each host's agent must
/// count its GPUs. Throws InputError that names the variable or the file, its value, and what was
/// expected; where no allocation is there, it names the variables that were looked for.
std::vector<HostSpec> allocated_hosts(Launcher launcher, const Variables& variables);

/// One sentence: how the agents of such a job are started, which find in `join_file` what they join
/// with.
std::string launch_advice(Launcher launcher, const std::filesystem::path& join_file);

}  // namespace pfc
