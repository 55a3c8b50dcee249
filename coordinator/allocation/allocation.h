// Reads the job's hosts from the scheduler's environment variables. Uses no SSH and runs no
// scheduler program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// The scheduler that allocates the hosts and starts an agent on each.
enum class Launcher { kSlurm, kMpi, kKubernetes };

/// Returns up to kMaxHosts hosts, in the scheduler's order. Slots are 0 if the host's agent must
/// count its GPUs. Throws InputError that names the variable or file, its value, and what was
/// expected. If there is no allocation, the error names the variables that were tried.
std::vector<HostSpec> allocated_hosts(Launcher launcher, const Variables& variables);

/// Returns a sentence that says how to start the agents of a job of this scheduler with
/// `join_file`.
std::string launch_advice(Launcher launcher, const std::filesystem::path& join_file);

}  // namespace pfc
