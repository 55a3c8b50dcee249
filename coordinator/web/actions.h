// What the page at / asks for beside itself: who its reader is, logs, stop and drain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/admin_calls.h"
#include "coordinator/web/http_request.h"

namespace pfc {

/// Answers /api/... in JSON; what is refused as {"error": "..."} with a status of 400 or more.
/// Roles may ask for what they may by gRPC (access/roles.h), and everything is done as there.
///
///   GET  /api/me                  {"role": "admin", "may_stop": true, "may_read_logs": true}
///   GET  /api/log?rank=1&part=2&offset=300[&job=ID]
///                                 {"job_id", "text", "part", "offset", "skipped", "over"}; part
///                                 -1: the end, of which offset is the distance in bytes; no
///                                 job_id: there was no job yet
///   POST /api/stop   {"job": "0123456789abcdef"}             {"job_id", "was_waiting"}
///   POST /api/drain  {"job": "0123456789abcdef", "host": "b"}   {}
class Actions {
 public:
  /// Borrows both; `gate`: null in plaintext, where everybody is an admin.
  Actions(Coordinator& coordinator, Gate* gate)
      : coordinator_(coordinator), gate_(gate), calls_(coordinator, gate) {}

  void handle(const HttpRequest& request, const HttpAnswer& answer);

  /// Those that take POST.
  static std::vector<std::string> post_paths() { return {"/api/stop", "/api/drain"}; }

 private:
  void log(const HttpRequest& request, const HttpAnswer& answer);
  void stop(const HttpRequest& request, const HttpAnswer& answer);
  void drain(const HttpRequest& request, const HttpAnswer& answer);
  /// Whether the request's sender may make this call; otherwise that is answered, and audited.
  bool admits(const HttpRequest& request, std::string_view call, const HttpAnswer& answer);

  Coordinator& coordinator_;
  Gate* const gate_;
  AdminCalls calls_;
};

/// The value of a key in "rank=0&part=1"; empty: it is not there. "%41" is not decoded: no value
/// that is asked for needs it.
std::string_view query_value(std::string_view query, std::string_view key);

}  // namespace pfc
