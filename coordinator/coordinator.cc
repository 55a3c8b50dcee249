#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/counted.h"
#include "common/one_line.h"
#include "coordinator/jobs/job_status.h"
#include "coordinator/rules/status.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

// Longer than any event takes.
constexpr milliseconds kStall{3'000};
// Time in which an agent that gave up ends its workers, after a checkpoint.
constexpr milliseconds kAgentEnds{60'000};

/// Returns whether the decision is announced by another line.
bool has_own_line(const Decision& decision) {
  return std::ranges::any_of(decision.actions, [](const Action& action) {
    return std::holds_alternative<action::StartGeneration>(action) ||
           std::holds_alternative<action::Blame>(action) ||
           std::holds_alternative<action::Count>(action) ||
           std::holds_alternative<action::BeginRegroup>(action) ||
           std::holds_alternative<action::StopForHost>(action) ||
           std::holds_alternative<action::Finish>(action);
  });
}

Refusal must_register_again() {
  return {.kind = Refusal::Kind::kUnavailable,
          .message = "it was silent for too long and must register again"};
}

}  // namespace

Coordinator::Coordinator(boost::asio::io_context& loop, CoordinatorOptions options,
                         Terminal& terminal, Finished finished)
    : timer_(loop),
      options_(std::move(options)),
      terminal_(terminal),
      finished_(std::move(finished)) {
  run_.config = options_.rendezvous;
  for (const HostSpec& host : options_.hosts) {
    state_.hosts.push_back({.name = host.name,
                            .slots = host.slots,
                            .local = host.local,
                            .resolves = host.resolves,
                            .answered = host.answered});
  }
}

void Coordinator::start(const std::string& address, const std::string& launch_advice) {
  state_.address = address;
  state_.launch_advice = launch_advice;
  last_tick_ = Clock::now();
  if (state_.job.current.number == 0) state_.job.started_at = last_tick_;
  tick();
}

void Coordinator::hosts_looked_up(const std::vector<std::string>& names,
                                  const FoundAddresses& found) {
  for (const std::string& name : names) {
    HostState* const host = find_host(state_, name);
    const auto answer = found.find(name);
    host->answered = answer != found.end();
    host->resolves = !host->answered || !answer->second.empty();
  }
}

void Coordinator::close() {
  closed_ = true;
  timer_.cancel();
  run_.joins.clear(going_away());
  run_.values.clear(going_away());
  log_requests_.clear(going_away());
  fault_requests_.clear(going_away());
  trace_.end("the coordinator has ended");
  for (const auto& [host, link] : std::exchange(agents_, {})) tell_to_end(*link);
  for (const auto& [rank, link] : std::exchange(run_.workers, {})) link->close(going_away());
}

void Coordinator::tell_to_end(AgentLink& agent) const {
  proto::AgentCommand command;
  command.set_job_id(state_.job.id);
  command.mutable_shut_down();
  agent.send(std::move(command));
  agent.close(going_away());
}

proto::StatusReply Coordinator::status() const {
  proto::StatusReply status =
      make_status(state_, run_.config, run_.progress, reason_, over_, Clock::now());
  for (proto::WorkerStatus& worker : *status.mutable_workers()) {
    worker.set_slowness(run_.stragglers.slowness(worker.rank()));
    worker.set_own_step_seconds(run_.stragglers.own_seconds(worker.rank()));
  }
  status.set_job_file(run_.job.file);
  status.set_job_name(shown_name(run_.job));
  status.set_output(run_.job.output);
  status.set_state(shown_state());
  status.set_jobs_waiting(static_cast<int>(queue_.waiting().size()));
  status.set_takeovers(own_.takeovers());
  status.set_taken_over_ms(own_.taken_over_ms());
  status.set_takeover_seconds(takeover_seconds_);
  return status;
}

std::string Coordinator::shown_state() const {
  return run_.check ? "checking" : state_name(state_, run_.config, over_);
}

// Saves the counters before showing them, so that the next coordinator's counters never go back.
// Frequent readers get cached text, so the journal is not written on every read.
std::string Coordinator::metrics_text() {
  constexpr std::chrono::milliseconds kPause{100};
  if (shown_metrics_.empty() || Clock::now() - metrics_shown_at_ >= kPause) {
    shown_metrics_ = current_metrics();
    metrics_shown_at_ = Clock::now();
  }
  return shown_metrics_;
}

std::string Coordinator::current_metrics() {
  metrics_.set_waiting_jobs(queue_.waiting().size());
  metrics_.set_journal(own_.takeovers(), journal_ == nullptr ? 0 : journal_->failures());
  const TimePoint now = Clock::now();
  save(true);
  metrics_.set_dropped_lines(terminal_.dropped_lines());
  return metrics_.text({.state = state_,
                        .config = run_.config,
                        .progress = run_.progress,
                        .stragglers = run_.stragglers,
                        .state_name = shown_state(),
                        .now = now});
}

void Coordinator::tick() {
  timer_.expires_after(options_.tick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !closed_) tick();
  });
  forgive_stall();
  const auto lost_after = run_.config.limits.silence;
  for (const std::string& line : quiet_hosts_.update(state_, lost_after, Clock::now())) {
    terminal_.note(line, Severity::kWarning);
  }
  tell_stragglers();
  run_.values.expire(Clock::now());
  see_measurement();
  see_trace(Clock::now());
  run_.joins.expire(state_, Clock::now());
  log_requests_.expire(Clock::now());
  fault_requests_.expire(Clock::now());
  if (state_.job.id.empty()) release_silent_hosts();
  see_takeover(Clock::now());
  advance();
  save_if_due(Clock::now());
}

/// The next job waits until these hosts are back.
void Coordinator::release_silent_hosts() {
  const auto silence = options_.rendezvous.limits.silence;
  for (const std::string& host : pfc::release_silent_hosts(state_, silence, Clock::now())) {
    const auto link = agents_.find(host);
    if (link != agents_.end()) link->second->close(must_register_again());
  }
}

/// Time during which this process or its machine was suspended does not count as silence.
void Coordinator::forgive_stall() {
  const TimePoint now = Clock::now();
  const auto gap = now - std::exchange(last_tick_, now);
  if (gap < kStall) return;
  const std::string text =
      "the coordinator itself did not run for " +
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(gap).count()) +
      " s; nobody is blamed for that time";
  terminal_.note(text, Severity::kWarning);
  history_.tell(ClusterEvent::Kind::kJob, Severity::kWarning, text);
  postpone(state_, gap);
  if (measurement_) measurement_->postpone(gap);
  if (gap >= options_.coordinator_grace) excused_until_ = now + kAgentEnds;
}

void Coordinator::advance() {
  while (!over_ && !closed_) {
    if (state_.job.id.empty() && !begin_next_job()) break;
    history_.observe(state_);
    const Decision decision = decide_now();
    set_reason(decision.reason, !has_own_line(decision));
    if (decision.actions.empty()) return;
    save_soon();
    for (const Action& action : decision.actions) {
      note_check(action);
      apply(state_, action, Clock::now());
      perform(action);
    }
  }
  history_.observe(state_);
}

void Coordinator::set_reason(const std::string& reason, bool tell) {
  const bool is_new = std::exchange(reason_, reason) != reason;
  if (is_new && tell) terminal_.note(reason_);
}

void Coordinator::perform(const Action& action) {
  const auto must_register = [this](const std::string& host) {
    const auto link = agents_.find(host);
    if (link != agents_.end()) link->second->close(must_register_again());
  };
  const auto end_workers = [this] {
    run_.joins.clear({.kind = Refusal::Kind::kOldGeneration, .message = "the job is ending"});
    send_desired();
  };
  std::visit(
      Overloaded{
          [&](const action::Blame& a) {
            const bool goes_on = options_.is_service || may_restart(state_, run_.config);
            if (goes_on) must_register(a.incident.host);
          },
          [&](const action::StartGeneration& a) { begin_generation(a); },
          [&](const action::AskToStop&) { ask_workers_to_stop(); },
          [&](const action::Terminate&) { end_workers(); },
          [&](const action::Kill&) { end_workers(); },
          [&](const action::Describe& a) { ask_what_it_does(a.rank); },
          [&](const action::MeasureNetwork&) { measure_network(); },
          [&](const action::ReleaseHosts& a) { std::ranges::for_each(a.hosts, must_register); },
          [&](const action::StopForHost& a) {
            terminal_.note(a.request.reason + ": the workers write a checkpoint and end",
                           Severity::kWarning);
          },
          [&](const action::Finish&) { finish_job(); },
          // These change the state only.
          [](const action::Count&) {},
          [](const action::ChangeBlame&) {},
          [](const action::BeginRegroup&) {},
      },
      action);
}

void Coordinator::begin_generation(const action::StartGeneration& start) {
  run_.cause = start.cause ? start.cause->text() : start.why;
  save_now();  // before the number is sent to anyone
  const auto fresh = std::ranges::count(start.members, 0, &Member::survivor);
  std::string text = "generation " + std::to_string(state_.job.current.number) + ": starting " +
                     counted(fresh, "worker");
  if (start.cause) terminal_.note(run_.cause, Severity::kWarning);
  if (state_.job.current.number > 1) {
    const auto stay = std::ssize(start.members) - fresh;
    text += ", and " + counted(stay, "worker") + (stay == 1 ? " stays" : " stay");
  }
  if (start.cause) {
    text += "; restart " + std::to_string(state_.job.restarts) + ", " +
            std::to_string(restarts_left(state_, run_.config)) + " left of " +
            std::to_string(run_.config.max_restarts);
  }
  terminal_.note(text);
  history_.begin_generation(run_.cause.empty() ? text : text + ". The cause: " + run_.cause);
  const std::string smaller = why_smaller(state_, run_.config.elastic, Clock::now());
  if (!smaller.empty()) terminal_.note(smaller);
  metrics_.begin_generation();
  if (start.cause) metrics_.count_restart(*start.cause);
  const Refusal over{.kind = Refusal::Kind::kOldGeneration,
                     .message = "a new generation has begun, because of " + run_.cause};
  run_.values.clear(over);
  trace_.end(over.message);
  run_.stragglers = {};
  proto::WorkerCommand command;
  command.set_superseded(true);
  command.set_why(run_.cause);
  for (const auto& [rank, link] : std::exchange(run_.workers, {})) {
    link->send(command);
    link->close(over);
  }
  set_local_address();
  send_desired();
  run_.joins.members_changed(state_);  // workers of the last generation may wait for this one
  complete_join();
}

/// This machine's agent connects through the loopback interface, which peers cannot reach.
void Coordinator::set_local_address() {
  const auto local = std::find_if(state_.hosts.begin(), state_.hosts.end(),
                                  [](const HostState& host) { return host.local; });
  const auto remote = std::find_if(state_.hosts.begin(), state_.hosts.end(),
                                   [](const HostState& host) { return !host.local; });
  if (local == state_.hosts.end() || remote == state_.hosts.end()) return;
  local->address = address_towards(remote->address);  // numeric, so no name is resolved
}

void Coordinator::finish_job() {
  terminal_.clear_progress();
  // Workers report failures here and do not print them. The verdict is one of these lines.
  const std::vector<std::string> incidents = incident_lines(state_.job.current);
  if (incidents.size() > 1 && !run_.check) {
    for (const std::string& incident : incidents) terminal_.note(incident, Severity::kWarning);
  }
  const Verdict how = run_.check ? end_check() : verdict(state_);
  history_.tell(ClusterEvent::Kind::kJob,
                how.kind == Verdict::Kind::kFailed ? Severity::kError : Severity::kNote,
                how.message, how.rank);
  if (options_.is_service) return end_job(how);
  over_ = true;
  if (journal_ != nullptr) journal_->remove();
  finished_(how);
}

void Coordinator::send_desired() {
  for (const HostState& host : state_.hosts) send_desired(host.name);
}

void Coordinator::send_desired(const std::string& host) {
  const auto link = agents_.find(host);
  if (link == agents_.end()) return;  // sent when the agent reconnects
  proto::AgentCommand command;
  command.set_job_id(state_.job.id);
  // Without a job there is nothing to add.
  if (state_.job.id.empty()) return link->second->send(std::move(command));
  proto::DesiredSlots* const desired = command.mutable_desired();
  for (const WorkerState& worker : state_.job.current.workers) {
    if (worker.host != host) continue;
    proto::DesiredSlots::Slot* slot = desired->add_slots();
    slot->set_slot(worker.slot);
    slot->set_incarnation(worker.incarnation);
    slot->set_rank(worker.rank);
    desired->set_places(find_host(state_, host)->slots);
    // An ended worker stays ended, even for an agent that was restarted since.
    slot->set_wish(worker.exit || state_.job.killed_at ? proto::DesiredSlots::KILL
                   : state_.job.terminated_at          ? proto::DesiredSlots::TERMINATE
                                                       : proto::DesiredSlots::RUN);
  }
  // Longer than the coordinator's limit, whose message names the missing workers.
  const milliseconds patience = run_.config.limits.start + kJoinSlack;
  desired->set_join_timeout_ms(patience.count());
  desired->set_collective_timeout_ms(options_.collective_timeout.count());
  link->second->send(std::move(command));
}

void Coordinator::ask_workers_to_stop() {
  proto::WorkerCommand command;
  command.set_stop(true);
  for (const auto& [rank, link] : run_.workers) link->send(command);
}

}  // namespace pfc
