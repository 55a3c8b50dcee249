// The pods of a Kubernetes Indexed Job, from variables set by its manifest (deploy/kubernetes).
#pragma once

#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/allocation/variables.h"

namespace pfc {

/// Returns PFC_KUBERNETES_PODS hosts, named PFC_KUBERNETES_JOB-0.PFC_KUBERNETES_SERVICE and so on:
/// the DNS names of the pods of an Indexed Job with a headless service. Each has
/// PFC_KUBERNETES_SLOTS slots; if unset, one per GPU. Throws InputError that names the variable.
std::vector<HostSpec> kubernetes_hosts(const Variables& variables);

}  // namespace pfc
