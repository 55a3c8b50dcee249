#include "coordinator/rules/quiet_hosts.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kQuietNoticeDelay{5};

}  // namespace

std::vector<std::string> QuietHosts::update(const ClusterState& state,
                                            std::chrono::milliseconds lost_after, TimePoint now) {
  std::vector<std::string> lines;
  for (const HostState& host : state.hosts) {
    const bool quiet = host.registered && now - host.last_heard >= kQuietNoticeDelay;
    if (quiet == quiet_.contains(host.name)) continue;
    if (quiet) {
      quiet_[host.name] = now;
      lines.push_back("host " + host.name +
                      ": its agent does not answer; the host counts as lost "
                      "after " +
                      std::to_string(lost_after.count() / 1000) + " s");
    } else {
      const TimePoint told = quiet_[host.name];
      quiet_.erase(host.name);
      const bool was_kept = host.registered && host.came_at < told;
      if (was_kept) lines.push_back("host " + host.name + ": its agent answers again");
    }
  }
  return lines;
}

}  // namespace pfc
