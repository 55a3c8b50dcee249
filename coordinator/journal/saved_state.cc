#include "coordinator/journal/saved_state.h"

#include <algorithm>

namespace pfc {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

proto::NetworkAddress saved_address(const HostAddress& address) {
  proto::NetworkAddress saved;
  saved.set_interface(address.interface);
  saved.set_address(address.address);
  saved.set_prefix(address.prefix);
  saved.set_mtu(address.mtu);
  return saved;
}

HostAddress address_from(const proto::NetworkAddress& saved) {
  return {.interface = saved.interface(),
          .address = saved.address(),
          .prefix = saved.prefix(),
          .mtu = saved.mtu()};
}

proto::SavedIncident saved_incident(const Incident& incident) {
  proto::SavedIncident saved;
  saved.set_kind(static_cast<int>(incident.kind));
  if (incident.rank) saved.set_rank(*incident.rank);
  saved.set_host(incident.host);
  saved.set_who(incident.who);
  saved.set_what(incident.what);
  saved.set_at_start(incident.at_start);
  saved.set_permanent(incident.permanent);
  return saved;
}

Incident incident_from(const proto::SavedIncident& saved, TimePoint at) {
  Incident incident{.kind = static_cast<Incident::Kind>(std::clamp(saved.kind(), 0, 2)),
                    .rank = {},
                    .host = saved.host(),
                    .who = saved.who(),
                    .what = saved.what(),
                    .at_start = saved.at_start(),
                    .permanent = saved.permanent(),
                    .at = at};
  if (saved.has_rank()) incident.rank = saved.rank();
  return incident;
}

/// Converts times between the steady clock and the wall clock, to the second, because the two
/// clocks differ by another fraction at every call.
class Times {
 public:
  Times(TimePoint now, WallTime wall) : now_(now), wall_(wall) {}

  [[nodiscard]] std::int64_t saved(TimePoint time) const {
    if (time == TimePoint()) return 0;
    const auto ago = std::chrono::round<std::chrono::seconds>(now_ - time);
    return to_ms(std::chrono::round<std::chrono::seconds>(wall_) - ago);
  }
  /// Limits times to one year ago and one day ahead, because the wall clock may have been changed.
  [[nodiscard]] TimePoint restored(std::int64_t ms) const {
    if (ms == 0) return {};
    constexpr milliseconds kLongest = std::chrono::hours{24 * 365}, kAhead = std::chrono::hours{24};
    const auto at_most = std::min(std::max(ms, std::int64_t{0}), to_ms(wall_) + kAhead.count());
    return now_ - std::clamp(milliseconds{to_ms(wall_) - at_most}, -kAhead, kLongest);
  }

 private:
  const TimePoint now_;
  const WallTime wall_;
};

void save_blame(const FailureHistory& blame, const Times& times, proto::SavedRun& saved) {
  for (const FailureRecord& each : blame.records) {
    proto::SavedFailureRecord& record = *saved.add_blame();
    record.set_host(each.host);
    record.set_slot(each.slot);
    record.set_failures(each.failures);
    record.set_last_ms(times.saved(each.last));
    record.set_times_left_out(each.times_left_out);
    if (each.until) record.set_until_ms(times.saved(*each.until));
    record.set_cause(each.cause);
  }
}

FailureHistory blame_from(const proto::SavedRun& saved, const Times& times) {
  FailureHistory blame;
  for (const auto& each : saved.blame()) {
    blame.records.push_back({.host = each.host(),
                             .slot = each.slot(),
                             .failures = each.failures(),
                             .last = times.restored(each.last_ms()),
                             .times_left_out = each.times_left_out(),
                             .until = {},
                             .cause = each.cause()});
    if (each.has_until_ms()) blame.records.back().until = times.restored(each.until_ms());
  }
  return blame;
}

proto::SavedBudget saved_budget(const RestartBudget& budget, const Times& times) {
  proto::SavedBudget saved;
  saved.set_spent(budget.spent);
  saved.set_counted_ms(times.saved(budget.counted_at));
  saved.set_quick(budget.quick);
  saved.set_not_before_ms(times.saved(budget.not_before));
  saved.set_crash_rank(budget.last_crash.rank);
  saved.set_crash_workers(budget.last_crash.workers);
  saved.set_crash_step(budget.last_crash.step);
  saved.set_same_crash(budget.same_crash);
  return saved;
}

RestartBudget budget_from(const proto::SavedBudget& saved, const Times& times) {
  return {.spent = saved.spent(),
          .counted_at = times.restored(saved.counted_ms()),
          .quick = saved.quick(),
          .not_before = times.restored(saved.not_before_ms()),
          .last_crash = {.rank = saved.crash_rank(),
                         .workers = saved.crash_workers(),
                         .step = saved.crash_step()},
          .same_crash = saved.same_crash()};
}

template <typename Strings>
std::vector<std::string> strings_of(const Strings& strings) {
  return {strings.begin(), strings.end()};
}

}  // namespace

proto::SavedHost to_saved(const HostState& host) {
  proto::SavedHost saved;
  saved.set_name(host.name);
  saved.set_slots(host.slots);
  saved.set_counts_gpus(host.counts_gpus);
  saved.set_registered(host.registered);
  saved.set_agent_id(host.agent_id);
  saved.set_once(host.once);
  if (host.leaving) {
    saved.mutable_leaving()->set_reason(host.leaving->reason);
    saved.mutable_leaving()->set_within_ms(host.leaving->within.count());
  }
  for (const std::string& agent : host.former_agents) saved.add_former_agents(agent);
  saved.set_peer(host.peer);
  saved.set_address(host.address);
  for (const HostAddress& each : host.addresses) *saved.add_addresses() = saved_address(each);
  if (host.chosen) *saved.mutable_chosen() = saved_address(*host.chosen);
  saved.set_cores(host.cores);
  for (const std::string& device : host.devices) saved.add_devices(device);
  saved.set_gpus(host.gpus);
  saved.set_no_gpu(host.no_gpu);
  saved.set_first_rank(host.first_rank);
  saved.set_incarnation(host.incarnation);
  saved.set_workers(host.workers);
  return saved;
}

void restore(HostState& host, const proto::SavedHost& saved, TimePoint heard) {
  host.slots = saved.slots();
  host.counts_gpus = saved.counts_gpus();
  host.registered = saved.registered();
  host.agent_id = saved.agent_id();
  host.once = saved.once();
  host.leaving.reset();
  if (saved.has_leaving()) {
    host.leaving = Leaving{.reason = saved.leaving().reason(),
                           .within = milliseconds{saved.leaving().within_ms()},
                           .at = heard};
  }
  host.former_agents = strings_of(saved.former_agents());
  host.peer = saved.peer();
  host.address = saved.address();
  host.addresses.clear();
  for (const auto& each : saved.addresses()) host.addresses.push_back(address_from(each));
  host.chosen.reset();
  if (saved.has_chosen()) host.chosen = address_from(saved.chosen());
  host.cores = saved.cores();
  host.devices = strings_of(saved.devices());
  host.gpus = saved.gpus();
  host.no_gpu = saved.no_gpu();
  host.came_at = host.last_heard = heard;
  host.first_rank = saved.first_rank();
  host.incarnation = saved.incarnation();
  host.workers = saved.workers();
}

proto::SavedWorker to_saved(const WorkerState& worker) {
  proto::SavedWorker saved;
  saved.set_rank(worker.rank);
  saved.set_host(worker.host);
  saved.set_slot(worker.slot);
  saved.set_incarnation(worker.incarnation);
  saved.set_pid(worker.pid);
  saved.set_stayed(worker.stayed);
  saved.set_joined(worker.joined);
  saved.set_left(worker.left);
  saved.set_paused(worker.paused);
  saved.set_training(worker.training);
  saved.set_reported(worker.report.has_value());
  if (worker.report) {
    saved.set_outcome(worker.report->outcome);
    saved.set_message(worker.report->message);
  }
  saved.set_exited(worker.exit.has_value());
  if (worker.exit) {
    saved.set_exit_code(worker.exit->code);
    saved.set_exit_signal(worker.exit->signal);
  }
  return saved;
}

WorkerState worker_from(const proto::SavedWorker& saved, TimePoint heard) {
  WorkerState worker{.rank = saved.rank(),
                     .host = saved.host(),
                     .slot = saved.slot(),
                     .incarnation = saved.incarnation(),
                     .pid = static_cast<pid_t>(saved.pid()),
                     .stayed = saved.stayed(),
                     .joined = saved.joined(),
                     .left = saved.left(),
                     .paused = saved.paused(),
                     .training = saved.training(),
                     .last_heard = heard,
                     .last_moved = heard};
  if (saved.reported()) {
    worker.report =
        WorkerReport{.outcome = saved.outcome(), .message = saved.message(), .at = heard};
  }
  if (saved.exited()) {
    worker.exit = ProcessExit{.code = saved.exit_code(), .signal = saved.exit_signal()};
  }
  return worker;
}

proto::SavedRun to_saved_run(const ClusterState& state, const std::string& cause, TimePoint now,
                             WallTime wall) {
  const JobState& job = state.job;
  proto::SavedRun saved;
  saved.set_job_id(job.id);
  saved.set_generation(job.current.number);
  const Times times(now, wall);
  saved.set_started_ms(times.saved(job.started_at));
  saved.set_stop_sent(job.current.stop_sent);
  saved.set_terminated(job.terminated_at.has_value());
  saved.set_killed(job.killed_at.has_value());
  saved.set_lost(job.current.lost);
  for (const Incident& each : job.current.incidents) *saved.add_incidents() = saved_incident(each);
  saved.set_restarts(job.restarts);
  if (job.last_restart) *saved.mutable_last_restart() = saved_incident(*job.last_restart);
  if (job.stop) {
    proto::SavedStop& stop = *saved.mutable_stop();
    stop.set_reason(job.stop->reason);
    stop.set_urgent(job.stop->urgent);
    stop.set_leaving(job.stop->leaving);
    stop.set_within_ms(job.stop->within.count());
  }
  save_blame(job.blame, times, saved);
  *saved.mutable_budget() = saved_budget(job.budget, times);
  saved.set_counted(job.current.counted);
  if (job.current.regroup) {
    saved.mutable_regroup()->set_reason(job.current.regroup->reason);
    saved.mutable_regroup()->set_within_ms(job.current.regroup->within.count());
  }
  saved.set_most_workers(job.most_workers);
  saved.set_least_workers(job.least_workers);
  saved.mutable_saved()->set_generation(job.saved.generation);
  saved.mutable_saved()->set_step(job.saved.step);
  saved.mutable_saved()->set_at_ms(times.saved(job.saved.at));
  saved.mutable_saved()->set_memory_step(job.saved.memory_step);
  saved.mutable_saved()->set_memory_generation(job.saved.memory_generation);
  saved.mutable_saved()->set_checkpoint_step(job.saved.checkpoint_step);
  saved.mutable_saved()->set_checkpoint_writer(job.saved.checkpoint_writer);
  saved.mutable_saved()->set_checkpoint_host(job.saved.checkpoint_host);
  saved.mutable_saved()->set_sharing_is_known(job.saved.sharing_is_known);
  saved.mutable_saved()->set_planned_workers(job.saved.planned_workers);
  saved.set_cause(cause);
  saved.set_workers(static_cast<int>(job.current.workers.size()));
  for (const std::string& agent : state.network.agents) saved.add_network_agents(agent);
  saved.set_network_ended(state.network.ended_at.has_value());
  saved.set_network_failed(state.network.failed);
  saved.set_network_changed(state.network.changed);
  saved.set_network_text(state.network.text);
  for (const std::string& host : state.network.apart) saved.add_network_apart(host);
  return saved;
}

void restore(ClusterState& state, const proto::SavedRun& saved, TimePoint now, WallTime wall) {
  state.job = {.id = saved.job_id(), .started_at = now};
  JobState& job = state.job;
  job.current.number = saved.generation();
  job.current.started_at = now;
  job.current.stop_sent = saved.stop_sent();
  job.current.lost = saved.lost();
  const Times times(now, wall);
  if (job.current.number > 0) job.started_at = times.restored(saved.started_ms());
  job.blame = blame_from(saved, times);
  job.budget = budget_from(saved.budget(), times);
  job.current.counted = saved.counted();
  if (saved.has_regroup()) {
    job.current.regroup = Regroup{.reason = saved.regroup().reason(),
                                  .at = now,
                                  .within = milliseconds{saved.regroup().within_ms()}};
  }
  job.saved = {.generation = saved.saved().generation(),
               .step = saved.saved().step(),
               .at = times.restored(saved.saved().at_ms()),
               .memory_step = saved.saved().memory_step(),
               .memory_generation = saved.saved().memory_generation(),
               .memory_parts = {},
               .checkpoint_step = saved.saved().checkpoint_step(),
               .checkpoint_writer = saved.saved().checkpoint_writer(),
               .checkpoint_host = saved.saved().checkpoint_host(),
               .sharing_is_known = saved.saved().sharing_is_known(),
               .planned_workers = saved.saved().planned_workers()};
  job.most_workers = saved.most_workers();
  job.least_workers = saved.least_workers();
  if (saved.terminated()) job.terminated_at = now;
  if (saved.killed()) job.killed_at = now;
  for (const auto& each : saved.incidents()) {
    job.current.incidents.push_back(incident_from(each, now));
  }
  if (job.current.number > 0) {
    for (HostState& host : state.hosts) host.registered = host.registered && host.workers > 0;
  }
  job.restarts = saved.restarts();
  if (saved.has_last_restart()) job.last_restart = incident_from(saved.last_restart(), now);
  if (saved.has_stop()) {
    job.stop = StopRequest{.reason = saved.stop().reason(),
                           .urgent = saved.stop().urgent(),
                           .at = now,
                           .leaving = saved.stop().leaving(),
                           .within = milliseconds{saved.stop().within_ms()}};
  }
  state.network = {.changed = saved.network_changed(), .text = saved.network_text()};
  if (!saved.network_ended()) return;  // measure it again
  state.network.agents = strings_of(saved.network_agents());
  state.network.ended_at = now;
  state.network.failed = saved.network_failed();
  state.network.apart = strings_of(saved.network_apart());
}

void restore(GenerationState& generation, std::vector<WorkerState> workers) {
  generation.joined =
      static_cast<std::size_t>(std::ranges::count(workers, true, &WorkerState::joined));
  const bool was_connecting = std::ranges::any_of(
      workers, [](const WorkerState& worker) { return !worker.training && !worker.report; });
  if (was_connecting && std::ranges::none_of(workers, has_ended_well)) generation.lost = true;
  generation.workers = std::move(workers);
}

proto::SavedJob to_saved(const Job& job) {
  proto::SavedJob saved;
  saved.set_id(job.id);
  saved.set_file(job.file);
  saved.set_json(job.json);
  saved.set_device(static_cast<int>(job.device));
  saved.set_submitted_ms(to_ms(job.submitted));
  saved.set_name(job.name);
  saved.set_submitter(job.submitter);
  return saved;
}

Job job_from(const proto::SavedJob& saved) {
  return {.id = saved.id(),
          .file = saved.file(),
          .json = saved.json(),
          .device = static_cast<DeviceChoice>(saved.device()),
          .submitted = from_ms(saved.submitted_ms()),
          .name = saved.name(),
          .submitter = saved.submitter(),
          .output = output_of(saved.json())};
}

proto::SavedEndedJobs to_saved(const std::deque<EndedJob>& jobs) {
  proto::SavedEndedJobs all;
  for (const EndedJob& job : jobs) {
    proto::SavedEndedJob& saved = *all.add_jobs();
    saved.set_id(job.id);
    saved.set_file(job.file);
    saved.set_submitted_ms(to_ms(job.submitted));
    if (job.started) saved.set_started_ms(to_ms(*job.started));
    saved.set_ended_ms(to_ms(job.ended));
    saved.set_how(static_cast<int>(job.how));
    saved.set_message(job.message);
    saved.set_workers(job.workers);
    for (const Rank rank : job.first_ranks) saved.add_first_ranks(rank);
    saved.set_name(job.name);
    saved.set_submitter(job.submitter);
    saved.set_output(job.output);
  }
  return all;
}

void restore(JobQueue& queue, const proto::SavedEndedJobs& saved) {
  for (const proto::SavedEndedJob& each : saved.jobs()) {
    EndedJob job{.id = each.id(),
                 .file = each.file(),
                 .submitted = from_ms(each.submitted_ms()),
                 .started = {},
                 .ended = from_ms(each.ended_ms()),
                 .how = static_cast<Verdict::Kind>(std::clamp(each.how(), 0, 2)),
                 .message = each.message(),
                 .workers = each.workers(),
                 .first_ranks = {each.first_ranks().begin(), each.first_ranks().end()},
                 .name = each.name(),
                 .submitter = each.submitter(),
                 .output = each.output()};
    if (each.has_started_ms()) job.started = from_ms(each.started_ms());
    queue.remember(std::move(job));
  }
}

}  // namespace pfc
