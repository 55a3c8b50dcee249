#include "coordinator/web/targets.h"

#include <nlohmann/json.hpp>

#include "common/network_address.h"

namespace pfc {
namespace {

using nlohmann::json;

/// Names may contain any bytes.
std::string targets_text(const json& targets) {
  return targets.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string coordinator_targets(const std::string& http_address) {
  return targets_text(
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
  return targets_text(targets);
}

}  // namespace pfc
