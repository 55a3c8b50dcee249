// The hosts of a Slurm job, from the environment of its batch script or of salloc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// "rack[0-1]n[08-10,12],login" as Slurm writes lists of hosts: every group in brackets is a list
/// of numbers and ranges, whose leading zeros stay. Throws InputError that begins with `variable`
/// for anything else, and for more than kMaxHosts hosts.
std::vector<std::string> expand_slurm_nodes(const std::string& variable, std::string_view list);

/// "2(x3),1" is {2, 2, 2, 1}. Throws InputError as expand_slurm_nodes() does.
std::vector<int> expand_slurm_counts(const std::string& variable, std::string_view list);

/// The hosts of SLURM_JOB_NODELIST. Their slots: SLURM_GPUS_PER_NODE; or, where the job has GPUs
/// (SLURM_GPUS_ON_NODE), as many as each agent finds; or SLURM_TASKS_PER_NODE. Throws InputError.
std::vector<HostSpec> slurm_hosts(const Variables& variables);

}  // namespace pfc
