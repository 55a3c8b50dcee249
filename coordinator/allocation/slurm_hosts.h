// The hosts of a Slurm job, from the environment of its batch script or of salloc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// Expands Slurm's host list syntax: "rack[0-1]n[08-10,12],login". Groups in brackets contain
/// numbers and ranges, whose leading zeros are kept. Throws InputError that begins with `variable`
/// for anything else, and for more than kMaxHosts hosts.
std::vector<std::string> expand_slurm_nodes(const std::string& variable, std::string_view list);

/// Expands "2(x3),1" to {2, 2, 2, 1}. Throws InputError as expand_slurm_nodes() does.
std::vector<int> expand_slurm_counts(const std::string& variable, std::string_view list);

/// Returns the hosts of SLURM_JOB_NODELIST. Slots come from SLURM_GPUS_PER_NODE. If it is not set,
/// agents count their GPUs if the job has some (SLURM_GPUS_ON_NODE); otherwise slots come from
/// SLURM_TASKS_PER_NODE. Throws InputError.
std::vector<HostSpec> slurm_hosts(const Variables& variables);

}  // namespace pfc
