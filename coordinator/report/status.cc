#include "coordinator/report/status.h"

#include "common/version.h"

namespace pfc {
namespace {

double seconds_since(TimePoint then, TimePoint now) {
  return std::chrono::duration<double>(now - then).count();
}

std::string state_name(const ClusterState& state, bool finished) {
  if (finished) {
    switch (verdict(state).kind) {
      case Verdict::Kind::kCompleted:
        return "completed";
      case Verdict::Kind::kStopped:
        return "stopped";
      case Verdict::Kind::kFailed:
        return "failed";
    }
  }
  if (!state.failures.empty()) return "failing";
  if (state.stop) return "stopping";
  if (state.generation == 0) return "waiting";
  return all_joined(state) ? "training" : "starting";
}

void add_host(const HostState& host, TimePoint now, proto::StatusReply& status) {
  proto::HostStatus* added = status.add_hosts();
  added->set_name(host.name);
  added->set_slots(host.slots);
  added->set_registered(host.registered);
  added->set_address(host.address);
  added->set_cores(host.cores);
  for (const std::string& device : host.devices) added->add_devices(device);
  if (host.registered) added->set_silent_seconds(seconds_since(host.last_heard, now));
}

void add_worker(const WorkerState& worker, TimePoint now, proto::StatusReply& status) {
  proto::WorkerStatus* added = status.add_workers();
  added->set_rank(worker.rank);
  added->set_host(worker.host);
  added->set_slot(worker.slot);
  added->set_pid(worker.pid);
  added->set_state(worker_state_name(worker, now));
  *added->mutable_progress() = worker.progress;
  if (worker.exit) return;
  added->set_silent_seconds(seconds_since(worker.last_heard, now));
  if (worker.training) added->set_stuck_seconds(seconds_since(worker.last_moved, now));
}

}  // namespace

std::string worker_state_name(const WorkerState& worker, TimePoint now) {
  if (worker.report) {
    switch (worker.report->outcome) {
      case proto::OUTCOME_COMPLETED:
        return "completed";
      case proto::OUTCOME_STOPPED:
        return "stopped";
      default:
        return "failed";
    }
  }
  if (worker.exit) return "exited";
  if (worker.training) return now - worker.last_moved < kNoProgress ? "training" : "no progress";
  return worker.joined ? "joined" : "starting";
}

proto::StatusReply make_status(const ClusterState& state, const JobProgress& progress,
                               const std::string& reason, bool finished, TimePoint now) {
  proto::StatusReply status;
  status.set_job_id(state.job_id);
  status.set_generation(state.generation);
  status.set_state(state_name(state, finished));
  status.set_reason(state.failures.empty() ? reason : verdict(state).message);
  status.set_uptime_seconds(seconds_since(state.started_at, now));
  for (const HostState& host : state.hosts) add_host(host, now, status);
  for (const WorkerState& worker : state.workers) add_worker(worker, now, status);
  status.set_step(progress.step());
  status.set_total_steps(progress.total_steps());
  status.set_epoch(progress.epoch());
  status.set_loss(progress.loss());
  status.set_samples_per_second(progress.samples_per_second());
  status.set_remaining_seconds(progress.remaining_seconds().value_or(-1));
  status.set_version(version());
  return status;
}

}  // namespace pfc
