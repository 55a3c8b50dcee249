// The pages that the coordinator serves over HTTP.
#pragma once

#include <string_view>

#include "coordinator/coordinator.h"
#include "coordinator/web/http_reply.h"

namespace pfc {

/// The reply for one path: /metrics (Prometheus), /healthz, /status.json, or / (the status page).
HttpReply serve_page(Coordinator& coordinator, std::string_view path);

/// The status page in HTML. It reloads itself every few seconds.
std::string status_page(const proto::StatusReply& status);

}  // namespace pfc
