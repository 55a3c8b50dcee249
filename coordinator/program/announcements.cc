#include "coordinator/program/announcements.h"

#include <algorithm>
#include <cstdint>

#include "common/counted.h"
#include "coordinator/allocation/hosts.h"
#include "coordinator/rules/health.h"

namespace pfc {

void tell_beginning(Terminal& terminal, const CoordinatorFile& file, const std::optional<Job>& job,
                    const std::string& page_access) {
  terminal.note((job ? "job " : "service ") + file.job_id + ", listening on " + file.address +
                (file.tls ? " and https://" : " and http://") + file.http_address + page_access +
                (job ? "" : "; it waits for jobs: pfcctl submit JOB.json"));
  if (!job) return;
  for (const std::string& warning : job->warnings) {
    terminal.note(job->file + ": " + warning, Severity::kWarning);
  }
}

void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts, Gate& gate,
                      const std::string& address, const std::string& launch_advice) {
  for (const HostSpec& host : hosts) {
    if (host.loopback.empty()) continue;
    terminal.note("host " + host.name + ": its name resolves to " + host.loopback +
                      " on this machine, so it is treated as this machine; if it is a different "
                      "machine, correct /etc/hosts, or give its address in --hosts",
                  Severity::kWarning);
  }
  if (!launch_advice.empty()) return terminal.note(launch_advice);
  if (std::ranges::all_of(hosts, &HostSpec::local)) return;
  const std::string join = gate.make_join_string(address);  // only if it is shown
  for (const HostSpec& host : hosts) {
    if (host.local) continue;
    const HostState state{.name = host.name, .resolves = host.resolves, .answered = host.answered};
    terminal.note("host " + host.name + ": " + agent_advice(join, state),
                  host.resolves && host.answered ? Severity::kNote : Severity::kWarning);
  }
}

void tell_end(Terminal& terminal, const Verdict& verdict, const std::string& staying) {
  if (const std::uint64_t lines = terminal.dropped_lines(); lines > 0) {
    terminal.note(counted(static_cast<long long>(lines), "line") +
                      " of output could not be written, because stdout or stderr was not read",
                  Severity::kWarning);
  }
  terminal.note(verdict.message + (staying.empty() ? "" : "; " + staying),
                verdict.kind == Verdict::Kind::kFailed ? Severity::kError : Severity::kNote);
}

}  // namespace pfc
