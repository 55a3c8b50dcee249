#include "coordinator/metrics/job_metrics.h"

#include <algorithm>
#include <array>
#include <optional>

#include "coordinator/rules/decisions/restart.h"
#include "coordinator/rules/elastic/membership.h"

namespace pfc::metrics {
namespace {

using Value = std::optional<double>;

// Same names as in coordinator/rules/status.cc.
constexpr std::array<const char*, 11> kStates{"idle",       "waiting",  "starting", "training",
                                              "restarting", "stopping", "checking", "failing",
                                              "completed",  "stopped",  "failed"};

void remove(GaugeFamily& family) { family.Remove(&family.Add({})); }

void set_or_remove(GaugeFamily& family, Value value) {
  if (!value) return remove(family);
  family.Add({}).Set(*value);
}

/// Reads a value that is known after the first step.
template <auto Member>
Value of_last_step(const JobProgress& progress) {
  return progress.known() ? field<Member>(progress) : std::nullopt;
}

/// Returns whether a job other than a check runs. If not, the values of the last job stay.
bool has_job(const Seen& seen) {
  return !seen.state.job.id.empty() && seen.state_name != "checking";
}

}  // namespace

std::string cause_of(const Incident& incident) {
  if (!incident.host.empty()) return "host_lost";
  switch (incident.kind) {
    case Incident::Kind::kCrash:
      return "crash";
    case Incident::Kind::kSilence:
      return "silence";
    case Incident::Kind::kPeerLost:
      return "connection_lost";
  }
  return "other";
}

JobMetrics::JobMetrics(Registry& r)
    : info_(gauge(r, "pfc_job_info",
                  "Always 1; the label is the id of the running job, or of the last job")),
      state_(gauge(r, "pfc_job_state", "1: the state that the job is in")),
      started_(gauge(r, "pfc_job_start_timestamp_seconds", "When the job began")),
      membership_{
          {gauge(r, "pfc_job_generation", "Current generation"),
           [](const Seen& s) -> Value { return s.state.job.current.number; }},
          {gauge(r, "pfc_job_restarts_left", "Restarts that are left"),
           [](const Seen& s) -> Value { return restarts_left(s.state, s.config); }},
          {gauge(r, "pfc_job_workers", "Workers of the current generation"),
           [](const Seen& s) -> Value { return s.state.job.current.workers.size(); }},
          {gauge(r, "pfc_job_workers_wanted",
                 "Workers that the job has when all of its hosts and slots are available"),
           [](const Seen& s) -> Value { return wanted_workers(s.state, s.config.elastic); }},
          {gauge(r, "pfc_job_slots_idle", "Spare slots: slots without a worker"),
           [](const Seen& s) -> Value { return idle_slots(s.state, s.now).size(); }},
          {gauge(r, "pfc_job_slots_left_out",
                 "Slots and hosts that get no workers because they failed too often"),
           [](const Seen& s) -> Value {
             return std::ranges::count_if(
                 s.state.job.blame.records,
                 [&](const FailureRecord& record) { return is_left_out(record, s.now); });
           }},
          {gauge(r, "pfc_job_stragglers",
                 "Workers whose own work takes much longer than that of the others"),
           [](const Seen& s) -> Value {
             return std::ranges::count_if(
                 s.state.job.current.workers,
                 [&](const WorkerState& worker) { return s.stragglers.slowness(worker.rank) > 0; });
           }}},
      training_{{gauge(r, "pfc_job_step", "Optimizer steps done"), field<&JobProgress::step>},
                {gauge(r, "pfc_job_last_step", "Optimizer steps of the whole job"),
                 field<&JobProgress::total_steps>},
                {gauge(r, "pfc_job_epoch", "Epoch, from 0"), field<&JobProgress::epoch>},
                {gauge(r, "pfc_job_images_seen", "Images that the current model was trained on"),
                 field<&JobProgress::images_seen>},
                {gauge(r, "pfc_job_images_lost",
                       "Images whose updates were lost: a generation resumed from an older state"),
                 field<&JobProgress::images_lost>},
                {gauge(r, "pfc_job_remaining_seconds",
                       "Time left at the mean speed so far; absent if unknown"),
                 field<&JobProgress::remaining_seconds>},
                {gauge(r, "pfc_job_loss", "Loss of the last step, mean of all workers"),
                 of_last_step<&JobProgress::loss>},
                {gauge(r, "pfc_job_distillation_loss",
                       "Distillation loss of the last step; absent unless embeddings are compared"),
                 field<&JobProgress::distillation_loss>},
                {gauge(r, "pfc_job_logits_loss",
                       "Loss of logits of the last step; absent unless logits are compared"),
                 field<&JobProgress::logits_loss>},
                {gauge(r, "pfc_job_learning_rate", "Learning rate of the last step"),
                 of_last_step<&JobProgress::learning_rate>},
                {gauge(r, "pfc_job_gradient_norm",
                       "L2 norm of the backbone's gradient in the last step, before clipping"),
                 of_last_step<&JobProgress::gradient_norm>},
                {gauge(r, "pfc_job_loss_scale",
                       "Scale of the loss in the last step; absent if the job has none"),
                 [](const JobProgress& progress) {
                   return progress.loss_scale() > 0 ? Value(progress.loss_scale()) : std::nullopt;
                 }}},
      checkpoint_at_(gauge(r, "pfc_job_last_checkpoint_timestamp_seconds",
                           "When the newest checkpoint of this job was published")),
      newest_checkpoint_{
          {gauge(r, "pfc_job_last_checkpoint_duration_seconds",
                 "Time from the newest checkpoint's start to its publication"),
           field<&proto::CheckpointTotal::newest_seconds>},
          {gauge(r, "pfc_job_last_checkpoint_size_bytes", "Size of the newest checkpoint"),
           field<&proto::CheckpointTotal::newest_bytes>}},
      hosts_{{gauge(r, "pfc_host_up", "1: the host's agent is registered"),
              [](const HostState& host, const Seen&) -> Value { return host.registered; }},
             {gauge(r, "pfc_host_last_heartbeat_timestamp_seconds",
                    "Time of the last heartbeat of the host's agent"),
              [](const HostState& host, const Seen& s) {
                return host.registered ? Value(s.unix_time(host.last_heard)) : std::nullopt;
              }},
             {gauge(r, "pfc_host_slots", "Workers that the host can run"),
              [](const HostState& host, const Seen&) -> Value { return host.slots; }}},
      restarts_(counter(r, "pfc_job_restarts_total", "Restarts after a failure, by cause")),
      checkpoints_{
          {counter(r, "pfc_job_checkpoints_total", "Checkpoints published"),
           field<&proto::CheckpointTotal::count>},
          {counter(r, "pfc_job_checkpoint_seconds_total",
                   "Time from the start of each checkpoint to its publication"),
           field<&proto::CheckpointTotal::seconds>},
          {counter(r, "pfc_job_checkpoint_held_seconds_total",
                   "Time that training has waited for checkpoints"),
           field<&proto::CheckpointTotal::held_seconds>},
          {counter(r, "pfc_job_checkpoint_bytes_total", "Bytes of all files of checkpoints"),
           field<&proto::CheckpointTotal::bytes>}} {
  for (const char* cause : {"crash", "silence", "host_lost", "connection_lost"}) {
    restarts_.Add({{"cause", cause}});  // begins at 0, so that the first count is an increase
  }
}

void JobMetrics::count_restart(const Incident& cause) {
  restarts_.Add({{"cause", cause_of(cause)}}).Increment();
}

void JobMetrics::add_checkpoints(const proto::Progress& before, const proto::Progress& told) {
  const proto::CheckpointTotal& old = before.checkpoints();
  const proto::CheckpointTotal& now = told.checkpoints();
  if (increase(old.count(), now.count()) == 0) return;
  for (const auto& [family, value] : checkpoints_) {
    family.Add({}).Increment(increase(*value(old), *value(now)));
  }
  for (const auto& [family, value] : newest_checkpoint_) family.Add({}).Set(*value(now));
  last_checkpoint_ = unix_seconds(wall_now());
}

void JobMetrics::begin_job() {
  last_checkpoint_ = 0;
  remove(checkpoint_at_);
  for (const auto& row : newest_checkpoint_) remove(row.family);
}

void JobMetrics::set(const Seen& seen) {
  const JobState& job = seen.state.job;
  if (has_job(seen) && job.id != job_id_) {
    if (!job_id_.empty()) info_.Remove(&info_.Add({{"job_id", job_id_}}));
    job_id_ = job.id;
    info_.Add({{"job_id", job_id_}}).Set(1);
    started_.Add({}).Set(seen.unix_time(job.started_at));
  }
  for (const char* name : kStates) state_.Add({{"state", name}}).Set(seen.state_name == name);
  for (const auto& [family, value] : membership_) family.Add({}).Set(*value(seen));
  if (has_job(seen)) {
    for (const auto& [family, value] : training_) set_or_remove(family, value(seen.progress));
    if (last_checkpoint_ > 0) checkpoint_at_.Add({}).Set(last_checkpoint_);
  }
  for (const HostState& host : seen.state.hosts) {
    for (const auto& [family, value] : hosts_) {
      if (const Value now = value(host, seen)) family.Add({{"host", host.name}}).Set(*now);
    }
  }
}

CounterFamily* JobMetrics::find_counter(const std::string& name) {
  return name == restarts_.GetName() ? &restarts_ : find_family(checkpoints_, name);
}

}  // namespace pfc::metrics
