#include "proto/status_json.h"

namespace pfc {
namespace {

using Json = nlohmann::ordered_json;

Json host_json(const proto::HostStatus& host) {
  return {{"name", host.name()},
          {"slots", host.slots()},
          {"registered", host.registered()},
          {"address", host.address()},
          {"interface", host.interface()},
          {"cores", host.cores()},
          {"devices", std::vector<std::string>(host.devices().begin(), host.devices().end())},
          {"silent_seconds", host.silent_seconds()}};
}

Json left_out_json(const proto::LeftOut& left_out) {
  return {{"host", left_out.host()},
          {"slot", left_out.slot() < 0 ? Json() : Json(left_out.slot())},
          {"failures", left_out.failures()},
          {"cause", left_out.cause()},
          {"seconds", left_out.seconds()}};
}

Json worker_json(const proto::WorkerStatus& worker) {
  const proto::Progress& progress = worker.progress();
  Json comm_bytes = Json::object(), comm_calls = Json::object();
  for (const proto::CommTotal& total : progress.comm()) {
    comm_bytes[total.purpose()] = total.sent_bytes();
    comm_calls[total.purpose()] = total.calls();
  }
  return {{"rank", worker.rank()},
          {"host", worker.host()},
          {"slot", worker.slot()},
          {"pid", worker.pid()},
          {"state", worker.state()},
          {"silent_seconds", worker.silent_seconds()},
          {"stuck_seconds", worker.stuck_seconds()},
          {"slowness", worker.slowness()},
          {"own_step_seconds", worker.own_step_seconds()},
          {"step", progress.step()},
          {"phase", progress.phase()},
          {"loss", progress.loss()},
          {"samples_per_second", progress.samples_per_second()},
          {"data_wait_seconds", progress.data_wait_seconds()},
          {"resident_bytes", progress.resident_bytes()},
          {"gpu_memory_bytes", progress.gpu_memory_bytes()},
          {"device", progress.device()},
          {"comm_bytes", std::move(comm_bytes)},
          {"comm_calls", std::move(comm_calls)},
          {"skipped_images", progress.skipped_images()},
          {"images_seen", progress.images_seen()},
          {"resumed_images", progress.resumed_images()}};
}

}  // namespace

Json to_json(const proto::StatusReply& status) {
  Json hosts = Json::array();
  for (const proto::HostStatus& host : status.hosts()) hosts.push_back(host_json(host));
  Json workers = Json::array();
  for (const proto::WorkerStatus& worker : status.workers()) workers.push_back(worker_json(worker));
  Json left_out = Json::array();
  for (const proto::LeftOut& each : status.left_out()) left_out.push_back(left_out_json(each));
  const bool remaining_known = status.remaining_seconds() >= 0;
  return {{"state", status.state()},
          {"reason", status.reason()},
          {"job_id", status.job_id()},
          {"job_file", status.job_file()},
          {"job_name", status.job_name()},
          {"output", status.output()},
          {"jobs_waiting", status.jobs_waiting()},
          {"generation", status.generation()},
          {"restarts", status.restarts()},
          {"takeovers", status.takeovers()},
          {"taken_over_ms", status.taken_over_ms()},
          {"takeover_seconds", status.takeover_seconds()},
          {"max_restarts", status.max_restarts()},
          {"restarts_left", status.restarts_left()},
          {"last_restart", status.last_restart()},
          {"uptime_seconds", status.uptime_seconds()},
          {"step", status.step()},
          {"total_steps", status.total_steps()},
          {"epoch", status.epoch()},
          {"loss", status.loss()},
          {"samples_per_second", status.samples_per_second()},
          {"images_seen", status.images_seen()},
          {"images_lost", status.images_lost()},
          {"remaining_seconds", remaining_known ? Json(status.remaining_seconds()) : Json()},
          {"world_size", status.world_size()},
          {"wanted_workers", status.wanted_workers()},
          {"min_workers", status.min_workers()},
          {"why_smaller", status.why_smaller()},
          {"idle", std::vector<std::string>(status.idle().begin(), status.idle().end())},
          {"left_out", std::move(left_out)},
          {"network", status.network()},
          {"hosts", std::move(hosts)},
          {"workers", std::move(workers)},
          {"version", status.version()}};
}

}  // namespace pfc
