#include "coordinator/web/targets.h"

#include <nlohmann/json.hpp>

#include "common/network_address.h"
#include "common/one_line.h"

namespace pfc {

using nlohmann::json;

std::string coordinator_targets(const std::string& http_address) {
  return json_text(
      json::array({{{"targets", json::array({http_address})}, {"labels", json::object()}}}));
}

std::string host_targets(const proto::StatusReply& status) {
  json targets = json::array();
  for (const proto::HostStatus& host : status.hosts()) {
    if (!host.registered() || host.address().empty()) continue;
    // IPv6 addresses are in brackets before a port.
    const bool is_ipv6 = host.address().find(':') != std::string::npos;
    const std::string address = is_ipv6 ? "[" + host.address() + "]" : host.address();
    targets.push_back({{"targets", json::array({address})}, {"labels", {{"host", host.name()}}}});
  }
  return json_text(targets);
}

}  // namespace pfc
