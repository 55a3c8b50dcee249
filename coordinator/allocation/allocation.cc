#include "coordinator/allocation/allocation.h"

#include "coordinator/allocation/kubernetes_hosts.h"
#include "coordinator/allocation/mpi_hosts.h"
#include "coordinator/allocation/slurm_hosts.h"

namespace pfc {

std::vector<HostSpec> allocated_hosts(Launcher launcher, const Variables& variables) {
  switch (launcher) {
    case Launcher::kSlurm:
      return slurm_hosts(variables);
    case Launcher::kMpi:
      return mpi_hosts(variables);
    case Launcher::kKubernetes:
      break;
  }
  return kubernetes_hosts(variables);
}

std::string launch_advice(Launcher launcher, const std::filesystem::path& join_file) {
  const std::string agent = "pfc-agent --once --join-file " + join_file.string();
  switch (launcher) {
    case Launcher::kSlurm:
      return "start the agents in this allocation: srun --ntasks=$SLURM_JOB_NUM_NODES "
             "--ntasks-per-node=1 --cpu-bind=none " +
             agent;
    case Launcher::kMpi:
      return "start the agents on these hosts: mpirun --pernode --bind-to none " + agent;
    case Launcher::kKubernetes:
      break;
  }
  return "each agent's pod runs: " + agent + "; kubectl get pods shows which do not run";
}

}  // namespace pfc
