// The pods of an Indexed Job, from the environment that its manifest sets (deploy/kubernetes).
#pragma once

#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// PFC_KUBERNETES_PODS pods, whose names are PFC_KUBERNETES_JOB-0.PFC_KUBERNETES_SERVICE and so on:
/// Kubernetes gives the pods of an Indexed Job these names in the domain of its headless service.
/// Each has PFC_KUBERNETES_SLOTS slots; without it, as many as its agent finds GPUs. Throws
/// InputError that names the variable.
std::vector<HostSpec> kubernetes_hosts(const Variables& variables);

}  // namespace pfc
