#include "coordinator/web/pages.h"

#include <cstdio>

#include "common/counted.h"
#include "proto/status_json.h"

namespace pfc {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px system-ui,sans-serif;margin:2rem;max-width:70rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;width:100%}"
    "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #ddd}"
    "progress{width:100%;height:1rem}.state{font-weight:600}";

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string row(const std::vector<std::string>& cells, const char* tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) {
    html += std::string("<") + tag + ">" + escape(cell) + "</" + tag + ">";
  }
  return html + "</tr>\n";
}

std::string workers_table(const proto::StatusReply& status) {
  std::string html = "<table>\n" + row({"rank", "host", "slot", "device", "state", "step", "phase",
                                        "samples/s", "memory", "last heard"},
                                       "th");
  for (const proto::WorkerStatus& worker : status.workers()) {
    const proto::Progress& progress = worker.progress();
    html += row({std::to_string(worker.rank()), worker.host(), std::to_string(worker.slot()),
                 progress.device(), worker.state(), std::to_string(progress.step()),
                 progress.phase(), number(progress.samples_per_second(), "%.1f"),
                 number(static_cast<double>(progress.resident_bytes()) / (1 << 30), "%.2f GiB"),
                 number(worker.silent_seconds(), "%.0f s ago")},
                "td");
  }
  return html + "</table>\n";
}

std::string hosts_table(const proto::StatusReply& status) {
  std::string html = "<table>\n" + row({"host", "slots", "agent", "address", "cores"}, "th");
  for (const proto::HostStatus& host : status.hosts()) {
    html += row({host.name(), host.slots() == 0 ? "one a GPU" : std::to_string(host.slots()),
                 host.registered() ? "registered" : "not here yet", host.address(),
                 std::to_string(host.cores())},
                "td");
  }
  return html + "</table>\n";
}

std::string left_out_table(const proto::StatusReply& status) {
  std::string html = "<table>\n" + row({"left out", "slot", "failures", "the last", "for"}, "th");
  for (const proto::LeftOut& each : status.left_out()) {
    html += row({each.host(), each.slot() < 0 ? "all" : std::to_string(each.slot()),
                 std::to_string(each.failures()), each.cause(), duration_text(each.seconds())},
                "td");
  }
  return html + "</table>\n";
}

/// "job 0123456789abcdef, generation 1, 3 jobs waiting"
std::string job_text(const proto::StatusReply& status) {
  std::string text = "no job";
  if (!status.job_id().empty()) {
    text = "job " + escape(status.job_id()) + ", generation " + std::to_string(status.generation());
  }
  if (status.jobs_waiting() > 0) text += ", " + counted(status.jobs_waiting(), "job") + " waiting";
  return text;
}

}  // namespace

std::string status_page(const proto::StatusReply& status) {
  std::string html = "<!doctype html><html lang=en><head><meta charset=utf-8><title>pfc: " +
                     escape(status.state()) + "</title><meta http-equiv=refresh content=3><style>";
  html += kStyle;
  html += "</style></head><body><h1>pfc</h1>\n<p><span class=state>" + escape(status.state()) +
          "</span> &mdash; " + escape(status.reason()) + "</p>\n";
  if (status.total_steps() > 0) {
    html += "<progress max=" + std::to_string(status.total_steps()) +
            " value=" + std::to_string(status.step()) + "></progress>\n<p>step " +
            std::to_string(status.step()) + " of " + std::to_string(status.total_steps()) +
            ", epoch " + std::to_string(status.epoch()) + ", loss " +
            number(status.loss(), "%.4f") + ", " + number(status.samples_per_second(), "%.1f") +
            " samples/s";
    if (status.remaining_seconds() >= 0) {
      html += ", " + duration_text(status.remaining_seconds()) + " left";
    }
    html += "</p>\n";
  }
  if (!status.network().empty()) html += "<p>" + escape(status.network()) + "</p>\n";
  if (status.restarts() > 0) {
    html += "<p>restarted " + std::to_string(status.restarts()) + " times, " +
            std::to_string(status.restarts_left()) + " of " +
            std::to_string(status.max_restarts()) + " are left; the last time because of " +
            escape(status.last_restart()) + "</p>\n";
  }
  if (!status.why_smaller().empty()) html += "<p>" + escape(status.why_smaller()) + "</p>\n";
  if (status.left_out_size() > 0) html += left_out_table(status);
  html += workers_table(status) + hosts_table(status);
  html += "<p>" + job_text(status) + ", up " + duration_text(status.uptime_seconds()) +
          ", version " + escape(status.version()) +
          ". <a href=/metrics>metrics</a>, <a href=/status.json>status.json</a></p>";
  return html + "</body></html>\n";
}

HttpReply serve_page(Coordinator& coordinator, std::string_view path) {
  if (path == "/") {
    return {.content_type = "text/html; charset=utf-8", .body = status_page(coordinator.status())};
  }
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = coordinator.metrics_text()};
  }
  if (path == "/status.json") {
    return {.content_type = "application/json",
            .body = to_json(coordinator.status()).dump(2) + "\n"};
  }
  return {.status = 404, .body = "not here: try /, /metrics, /healthz or /status.json\n"};
}

}  // namespace pfc
