// Settings derived from pfc-coordinator's command line before anything starts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/cluster/job.h"
#include "coordinator/coordinator.h"
#include "coordinator/program/options.h"
#include "proto/journal.pb.h"

namespace pfc {

struct Setup {
  std::vector<HostSpec> hosts;
  std::optional<Job> job;  ///< job of --config; empty for a service
  /// All hosts are this machine, and the coordinator starts its agent. So no other machine
  /// connects.
  bool all_local = false;
  std::string bind;                ///< address to listen on
  std::string reachable;           ///< address that agents use
  std::string own_host;            ///< host whose agent the coordinator starts; empty: none
  CoordinatorOptions coordinator;  ///< for a start without a takeover
  proto::JournalIdentity identity;
};

/// Resolves the hosts, and reads and checks the job. Throws InputError if an option, the host
/// list, the job or a limit of this process makes the job impossible.
Setup set_up(const Options& options);

/// Converts an option's value in seconds.
std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace pfc
