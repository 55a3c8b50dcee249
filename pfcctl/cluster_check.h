// pfcctl check --coordinator: lets a service check all its hosts (docs/check.md).
#pragma once

#include <string>
#include <vector>

#include "pfcctl/coordinator_call.h"

namespace pfc {

struct ClusterCheck {
  Target target;
  std::string config;  ///< the job file; empty: check only the hosts
  std::vector<std::string> overrides;
  bool cluster = false;  ///< the service that this user runs on this machine
  bool json = false;
};

/// Requests a check, waits for it and prints the report; prints what it waits for on stderr.
/// Throws ExitStatus{1} if something would stop or slow the job, InputError if the coordinator
/// refuses, and CommError if it cannot be reached.
void run_cluster_check(const ClusterCheck& check);

}  // namespace pfc
