// What pfc-coordinator tells the person who has started it, beside what happens to jobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/coordinator_file.h"
#include "coordinator/access/gate.h"
#include "coordinator/allocation/host_list.h"
#include "coordinator/jobs/job.h"
#include "coordinator/report/terminal.h"
#include "coordinator/verdict.h"

namespace pfc {

/// What a person reads first. `job`: none for a service. `page_access`: is added to the address of
/// the page.
void tell_beginning(Terminal& terminal, const CoordinatorFile& file, const std::optional<Job>& job,
                    const std::string& page_access);

/// What a person must do on the hosts of which this machine is none. `address`: by which they reach
/// the coordinator. `launch_advice`: of the scheduler that starts all agents; empty: none does.
void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts, Gate& gate,
                      const std::string& address, const std::string& launch_advice);

/// Prints the last line: how the job ended, and which agents keep running (staying_agents()).
void tell_end(Terminal& terminal, const Verdict& verdict, const std::string& staying);

}  // namespace pfc
