// What Prometheus shall read, in the format of its HTTP service discovery
// (https://prometheus.io/docs/prometheus/latest/http_sd/).
#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// The coordinator, which tells of all its workers. `http_address`: host:port by which it is
/// reached.
std::string coordinator_targets(const std::string& http_address);

/// The hosts whose agents are here, by their addresses and without a port: that is of what else
/// runs on them, such as node_exporter.
std::string host_targets(const proto::StatusReply& status);

}  // namespace pfc
