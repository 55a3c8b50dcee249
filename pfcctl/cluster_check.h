// pfcctl check --coordinator: lets a service look at all its hosts (docs/check.md).
#pragma once

#include <string>
#include <vector>

#include "pfcctl/coordinator_call.h"

namespace pfc {

struct ClusterCheck {
  Target target;
  std::string config;  ///< the job file; empty: the hosts alone
  std::vector<std::string> overrides;
  bool cluster = false;  ///< of the service that this user runs here
  bool json = false;
};

/// Asks for a check, waits for its end, and prints what was found; meanwhile tells on stderr what
/// is awaited. Throws ExitStatus{1} where something would stop or slow the job, InputError where
/// the coordinator refuses, and CommError where it cannot be reached.
void run_cluster_check(const ClusterCheck& check);

}  // namespace pfc
