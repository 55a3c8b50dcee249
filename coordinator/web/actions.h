// The page's requests at /api/: the user's role, logs, stop and drain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/audited_calls.h"
#include "coordinator/web/http_request.h"

namespace pfc {

/// Replies to /api/... in JSON. Errors are {"error": "..."} with a status of 400 or more. Roles
/// have the same rights as with gRPC (access/roles.h).
///
///   GET  /api/me                  {"role": "admin", "may_stop": true, "may_read_logs": true}
///   GET  /api/log?rank=1&part=2&offset=300[&job=ID]
///                                 {"job_id", "text", "part", "offset", "skipped", "over"}; part
///                                 -1: offset is a distance from the end in bytes; an empty
///                                 job_id: no job has run yet
///   POST /api/stop   {"job": "0123456789abcdef"}             {"job_id", "was_waiting"}
///   POST /api/drain  {"job": "0123456789abcdef", "host": "b"}   {}
class Actions {
 public:
  /// Borrows its arguments; `gate`: null in plaintext, where every caller is an admin.
  Actions(Coordinator& coordinator, Gate* gate)
      : coordinator_(coordinator), gate_(gate), calls_(coordinator, gate) {}

  void handle(const HttpRequest& request, const HttpAnswer& answer);

  /// Paths that accept POST.
  static std::vector<std::string> post_paths() { return {"/api/stop", "/api/drain"}; }

 private:
  void log(const HttpRequest& request, const HttpAnswer& answer);
  void stop(const HttpRequest& request, const HttpAnswer& answer);
  void drain(const HttpRequest& request, const HttpAnswer& answer);
  /// Returns whether the caller may make this call; otherwise replies with an audited error.
  bool admits(const HttpRequest& request, std::string_view call, const HttpAnswer& answer);

  Coordinator& coordinator_;
  Gate* const gate_;
  AuditedCalls calls_;
};

/// Returns the value of a key in "rank=0&part=1"; empty if absent. Does not decode "%41", because
/// no value needs it.
std::string_view query_value(std::string_view query, std::string_view key);

}  // namespace pfc
