// What the coordinator serves over HTTP.
#pragma once

#include <string_view>

#include "coordinator/coordinator.h"
#include "coordinator/web/http_server.h"

namespace pfc {

/// /metrics (Prometheus), /healthz, /status.json, and / for a person.
HttpReply serve_page(Coordinator& coordinator, std::string_view path);

/// The page for a person; it loads itself again every few seconds. Names are escaped.
std::string status_page(const proto::StatusReply& status);

}  // namespace pfc
