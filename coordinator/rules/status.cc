#include "coordinator/rules/status.h"

#include <algorithm>

#include "common/version.h"
#include "coordinator/rules/verdict.h"

namespace pfc {
namespace {

void add_host(const HostState& host, TimePoint now, proto::StatusReply& status) {
  proto::HostStatus* added = status.add_hosts();
  added->set_name(host.name);
  added->set_slots(host.slots);
  added->set_registered(host.registered);
  added->set_address(peer_address(host));
  if (host.chosen) added->set_interface(host.chosen->interface);
  added->set_cores(host.cores);
  for (const std::string& device : host.devices) added->add_devices(device);
  if (host.registered)
    added->set_silent_seconds(std::max(seconds_since(host.last_heard, now), 0.0));
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
  // After a takeover, last_heard can be in the future.
  added->set_silent_seconds(std::max(seconds_since(worker.last_heard, now), 0.0));
  if (worker.training) {
    added->set_stuck_seconds(std::max(seconds_since(worker.last_moved, now), 0.0));
  }
}

void add_membership(const ClusterState& state, const RendezvousConfig& config, TimePoint now,
                    proto::StatusReply& status) {
  status.set_restarts_left(restarts_left(state, config));
  status.set_world_size(static_cast<int>(state.job.current.workers.size()));
  status.set_wanted_workers(wanted_workers(state, config.elastic));
  status.set_min_workers(least_workers(state, config.elastic));
  status.set_why_smaller(why_smaller(state, config.elastic, now));
  for (const std::string& slot : idle_slots(state, now)) status.add_idle(slot);
  for (const FailureRecord& record : state.job.blame.records) {
    if (!is_left_out(record, now)) continue;
    proto::LeftOut* added = status.add_left_out();
    added->set_host(record.host);
    added->set_slot(record.slot);
    added->set_failures(failures_of(state.job.blame, record.host, record.slot, now));
    added->set_cause(record.cause);
    added->set_seconds(seconds_since(now, *record.until));
  }
}

}  // namespace

std::string state_name(const ClusterState& state, const RendezvousConfig& config, bool finished) {
  if (state.job.id.empty()) return "idle";
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
  if (!state.job.current.incidents.empty()) {
    return may_restart(state, config) ? "restarting" : "failing";
  }
  if (state.job.stop) return "stopping";
  if (state.job.current.number == 0) return "waiting";
  return all_joined(state) ? "training" : "starting";
}

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
  if (worker.left || worker.paused) return "leaving";
  if (worker.training) return now - worker.last_moved < kNoProgress ? "training" : "no progress";
  return worker.joined ? "joined" : "starting";
}

proto::StatusReply make_status(const ClusterState& state, const RendezvousConfig& config,
                               const JobProgress& progress, const std::string& reason,
                               bool finished, TimePoint now) {
  proto::StatusReply status;
  status.set_job_id(state.job.id);
  status.set_generation(state.job.current.number);
  status.set_state(state_name(state, config, finished));
  const bool failing = !state.job.current.incidents.empty() && !may_restart(state, config);
  const bool was_refused = !state.refused_agent.empty() && !missing_hosts(state).empty();
  status.set_reason(failing       ? verdict(state).message
                    : was_refused ? reason + "; an agent was refused: " + state.refused_agent
                                  : reason);
  status.set_restarts(state.job.restarts);
  status.set_max_restarts(config.max_restarts);
  if (state.job.last_restart) status.set_last_restart(state.job.last_restart->text());
  status.set_uptime_seconds(seconds_since(state.job.started_at, now));
  status.set_network(state.network.text);
  add_membership(state, config, now, status);
  for (const HostState& host : state.hosts) add_host(host, now, status);
  for (const WorkerState& worker : state.job.current.workers) add_worker(worker, now, status);
  status.set_step(progress.step());
  status.set_total_steps(progress.total_steps());
  status.set_images_seen(progress.images_seen());
  status.set_images_lost(progress.images_lost());
  status.set_epoch(progress.epoch());
  status.set_loss(progress.loss());
  status.set_samples_per_second(progress.samples_per_second());
  status.set_remaining_seconds(progress.remaining_seconds().value_or(-1));
  status.set_version(version());
  return status;
}

}  // namespace pfc
