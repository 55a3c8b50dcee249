// What follows from the command line of pfc-coordinator, before anything has started.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/coordinator.h"
#include "coordinator/jobs/job.h"
#include "coordinator/program/options.h"
#include "proto/journal.pb.h"

namespace pfc {

struct Setup {
  std::vector<HostSpec> hosts;
  std::optional<Job> job;  ///< of --config; none for a service
  /// All hosts are this machine, and it starts its agent itself: nobody else needs to come in.
  bool all_local = false;
  std::string bind;                ///< the address that it listens on
  std::string reachable;           ///< the address that agents are told
  std::string own_host;            ///< the host whose agent it starts itself; empty: there is none
  CoordinatorOptions coordinator;  ///< as it is where nothing is taken over
  proto::JournalIdentity identity;
};

/// Looks the hosts up, and reads and checks the job. Throws InputError where an option, the host
/// list, the job or a limit of this process makes the job impossible.
Setup set_up(const Options& options);

/// A time that an option has given.
std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace pfc
