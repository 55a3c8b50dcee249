// Messages of pfc-coordinator to the user, apart from events of jobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/coordinator_file.h"
#include "coordinator/access/gate.h"
#include "coordinator/allocation/host_list.h"
#include "coordinator/cluster/job.h"
#include "coordinator/rules/verdict.h"
#include "coordinator/terminal/terminal.h"

namespace pfc {

/// Prints the first lines. `job`: empty for a service. `page_access` is appended to the page's
/// address.
void tell_beginning(Terminal& terminal, const CoordinatorFile& file, const std::optional<Job>& job,
                    const std::string& page_access);

/// Prints what to do on the other hosts. `address`: where they reach the coordinator.
/// `launch_advice`: how the scheduler starts the agents; empty without a scheduler.
void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts, Gate& gate,
                      const std::string& address, const std::string& launch_advice);

/// Prints the last line: how the job ended, and which agents keep running (staying_agents()).
void tell_end(Terminal& terminal, const Verdict& verdict, const std::string& staying);

}  // namespace pfc
