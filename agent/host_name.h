// The host name that the coordinator probably uses for this host.
#pragma once

#include <string>

namespace pfc {

/// Returns the scheduler's name for this host: SLURMD_NODENAME (Slurm),
/// PFC_KUBERNETES_JOB-JOB_COMPLETION_INDEX (a pod of an Indexed Job) or PMIX_HOSTNAME (mpirun). If
/// none is set, returns the host's own name.
std::string scheduled_host_name();

}  // namespace pfc
