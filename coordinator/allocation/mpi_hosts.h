// The hosts on which mpirun starts processes, from the batch system's environment or Open MPI's
// default host file.
#pragma once

#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// Reads the first of these variables that is set: LSB_MCPU_HOSTS or LSB_HOSTS (LSF), PBS_NODEFILE
/// (PBS and Torque), PE_HOSTFILE (Grid Engine), PRTE_MCA_prte_default_hostfile (Open MPI 5),
/// OMPI_MCA_orte_default_hostfile (Open MPI 4). mpirun itself reads them. A host has as many slots
/// as mpirun would start processes there; 0 if a host file does not say. Throws InputError that
/// names the variable or the file and line.
std::vector<HostSpec> mpi_hosts(const Variables& variables);

}  // namespace pfc
