#include "coordinator/web/live/live_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proto/message_json.h"

namespace pfc {
namespace {

constexpr int kMostQueued = 20;  // most jobs shown from the queue; also the limit for ended jobs

/// Rounds to this many significant digits; null if not finite.
LiveJson rounded(double value, int digits = 6) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? LiveJson(std::round(value * scale) / scale)
                                           : LiveJson(value);
}

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

/// Returns whether a worker waits for others in this phase.
bool is_wait(const std::string& phase) {
  static const std::set<std::string> kWaits{"all_gather", "reduce_scatter", "gradient_wait"};
  return kWaits.contains(phase);
}

double own_seconds(const PhaseTimes& phases, const std::vector<double>& seconds) {
  double own = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (!is_wait(phases.names()[i])) own += seconds[i];
  }
  return own;
}

}  // namespace

LiveJson live_status(const proto::StatusReply& status, std::int64_t now_ms) {
  const auto started = now_ms / 1000 - std::llround(status.uptime_seconds());
  LiveJson json = message_json(
      status, {"state",         "reason",         "job_id",      "job_file",      "job_name",
               "jobs_waiting",  "generation",     "restarts",    "restarts_left", "last_restart",
               "step",          "total_steps",    "epoch",       "images_seen",   "images_lost",
               "world_size",    "wanted_workers", "why_smaller", "network",       "takeovers",
               "taken_over_ms", "version"});
  json["started_ms"] = started * 1000;
  json["loss"] = rounded(status.loss());
  json["samples_per_second"] = rounded(status.samples_per_second(), 4);
  json["remaining_seconds"] = nullptr;
  if (status.remaining_seconds() >= 0) {
    json["remaining_seconds"] = std::llround(status.remaining_seconds());
  }
  json["left_out"] = messages_json(status.left_out(), {"host", "slot", "failures", "cause"});
  return json;
}

LiveJson live_hosts(const proto::StatusReply& status) {
  return messages_json(status.hosts(),
                       {"name", "slots", "registered", "address", "cores", "devices"});
}

LiveJson live_workers(const proto::StatusReply& status) {
  std::map<std::string, int> number_of_host;
  for (const proto::HostStatus& host : status.hosts()) {
    number_of_host.emplace(host.name(), static_cast<int>(number_of_host.size()));
  }
  LiveJson workers = LiveJson::array();
  for (const proto::WorkerStatus& worker : status.workers()) {
    const proto::Progress& progress = worker.progress();
    const double silent = worker.silent_seconds();
    workers.push_back({worker.rank(), number_of_host[worker.host()], worker.slot(), worker.pid(),
                       worker.state(), progress.step(), progress.phase(),
                       rounded(progress.samples_per_second(), 4), progress.resident_bytes(),
                       progress.gpu_memory_bytes(), progress.device(),
                       silent < 3 ? 0 : std::llround(silent), rounded(worker.slowness(), 2)});
  }
  return workers;
}

LiveJson live_plan(const std::string& job_json, const StartNotes& notes) {
  LiveJson job = LiveJson::parse(job_json, nullptr, /*allow_exceptions=*/false);
  if (!job.is_object()) job = LiveJson::object();
  return {{"job", std::move(job)}, {"notes", notes.notes()}};
}

LiveJson live_phases(const PhaseTimes& phases) {
  std::vector<std::pair<double, Rank>> longest;
  for (std::size_t i = 0; i < phases.ranks(); ++i) {
    const auto rank = static_cast<Rank>(i);
    longest.emplace_back(own_seconds(phases, phases.seconds_a_step(rank)), rank);
  }
  const bool all = longest.size() <= kMostBars;
  if (!all) {
    std::ranges::partial_sort(longest, longest.begin() + kMostBars, std::greater{});
    longest.resize(kMostBars);
  }
  LiveJson rows = LiveJson::array();
  for (const auto& [own, rank] : longest) {
    LiveJson seconds = LiveJson::array();
    for (const double each : phases.seconds_a_step(rank)) seconds.push_back(rounded(each, 3));
    rows.push_back({rank, std::move(seconds)});
  }
  return {{"names", phases.names()}, {"of", phases.ranks()}, {"rows", std::move(rows)}};
}

LiveJson live_curves(const Curve& curve, std::size_t from, bool cut) {
  LiveJson rows = LiveJson::array();
  for (std::size_t i = from; i < curve.points().size(); ++i) {
    const CurvePoint& point = curve.points()[i];
    const CurveValue &loss = point.loss, &speed = point.samples_per_second;
    LiveJson row = {point.ms, point.step, point.generation, rounded(loss.mean),
                    rounded(speed.mean, 4)};
    if (point.reports > 1) {
      for (const double each : {loss.least, loss.most}) row.push_back(rounded(each));
      for (const double each : {speed.least, speed.most}) row.push_back(rounded(each, 4));
    }
    rows.push_back(std::move(row));
  }
  return {{"begun_ms", curve.begun_ms()}, {"cut", cut}, {"from", from}, {"rows", rows}};
}

LiveJson live_events(const EventLog& events, std::int64_t after) {
  LiveJson rows = LiveJson::array();
  for (const ClusterEvent& event : events.events()) {
    if (event.number <= after) continue;
    rows.push_back({{"number", event.number},
                    {"ms", event.ms},
                    {"kind", name_of(event.kind)},
                    {"severity", severity_name(event.severity)},
                    {"rank", event.rank ? LiveJson(*event.rank) : LiveJson()},
                    {"text", event.text}});
  }
  return rows;
}

LiveJson live_queue(const proto::QueueReply& queue) {
  LiveJson waiting = LiveJson::array(), ended = LiveJson::array();
  const auto row = [](const proto::JobStatus& job) {
    return message_json(job, {"job_id", "name", "file", "output", "state", "submitted_ms",
                              "started_ms", "ended_ms", "message"});
  };
  for (const proto::JobStatus& job : queue.jobs()) {
    if (job.state() == "running") continue;
    if (job.state() != "waiting") {
      ended.insert(ended.begin(), row(job));  // newest first
    } else if (waiting.size() < kMostQueued) {
      waiting.push_back(row(job));
    }
  }
  if (ended.size() > kMostQueued) ended.erase(ended.begin() + kMostQueued, ended.end());
  return {{"waiting", std::move(waiting)}, {"ended", std::move(ended)}};
}

}  // namespace pfc
