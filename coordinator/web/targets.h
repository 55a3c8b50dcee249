// Targets for Prometheus, in the format of its HTTP service discovery
// (https://prometheus.io/docs/prometheus/latest/http_sd/).
#pragma once

#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Returns the coordinator as the only target, because it serves the metrics of all workers.
/// `http_address`: its host:port.
std::string coordinator_targets(const std::string& http_address);

/// Returns the addresses of registered hosts, without a port, for other exporters on them such as
/// node_exporter.
std::string host_targets(const proto::StatusReply& status);

}  // namespace pfc
