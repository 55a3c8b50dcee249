// The name under which the coordinator is likely to know this host.
#pragma once

#include <string>

namespace pfc {

/// What the scheduler that has started this process calls its host: SLURMD_NODENAME (Slurm),
/// PFC_KUBERNETES_JOB-JOB_COMPLETION_INDEX (a pod of an Indexed Job), PMIX_HOSTNAME (mpirun). Where
/// none of them is set, the host's name for itself.
std::string scheduled_host_name();

}  // namespace pfc
