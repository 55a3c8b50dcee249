#include "coordinator/coordinator.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/counted.h"
#include "common/one_line.h"
#include "coordinator/jobs/job_status.h"
#include "coordinator/rules/status.h"
#include "security/first_contact.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

// A longer pause between two ticks means that this process was suspended: no event takes so long.
constexpr milliseconds kStall{3'000};
// Time in which an agent without a coordinator ends its workers, which first write a checkpoint.
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

}  // namespace

Coordinator::Coordinator(boost::asio::io_context& loop, CoordinatorOptions options,
                         Terminal& terminal, Finished finished)
    : timer_(loop),
      finished_(std::move(finished)),
      cluster_{.options = std::move(options),
               .terminal = terminal,
               .advance = [this] { advance(); },
               .save_soon = [this] { takeover_.save_soon(); },
               .save_now = [this] { takeover_.save_now(); }} {
  for (const HostSpec& host : cluster_.options.hosts) {
    cluster_.state.hosts.push_back({.name = host.name,
                                    .slots = host.slots,
                                    .local = host.local,
                                    .resolves = host.resolves,
                                    .answered = host.answered});
  }
}

void Coordinator::start(const std::string& address, const std::string& launch_advice) {
  cluster_.state.address = address;
  cluster_.state.launch_advice = launch_advice;
  last_tick_ = Clock::now();
  if (cluster_.state.job.current.number == 0) cluster_.state.job.started_at = last_tick_;
  tick();
}

void Coordinator::hosts_looked_up(const std::vector<std::string>& names,
                                  const FoundAddresses& found) {
  for (const std::string& name : names) {
    HostState* const host = find_host(cluster_.state, name);
    const auto answer = found.find(name);
    host->answered = answer != found.end();
    host->resolves = !host->answered || !answer->second.empty();
  }
}

void Coordinator::close() {
  cluster_.closed = true;
  timer_.cancel();
  workers_.clear(going_away());
  jobs_.log_requests().clear(going_away());
  agents_.fault_requests().clear(going_away());
  traces_.end("the coordinator has ended");
  cluster_.links.close();
}

void Coordinator::agent_was_refused(const std::string& host, const std::string& why) {
  boost::asio::post(timer_.get_executor(), [this, host, why] { checks_.agent_refused(host, why); });
}

void Coordinator::handshake_stalled(const std::string& address) {
  checks_.agent_refused(address,
                        address + ": TCP connects, but no TLS handshake completes; " + kMtuAdvice);
}

proto::StatusReply Coordinator::status() const {
  proto::StatusReply status =
      make_status(cluster_.state, cluster_.run.config, cluster_.run.progress, cluster_.reason,
                  cluster_.over, Clock::now());
  for (proto::WorkerStatus& worker : *status.mutable_workers()) {
    worker.set_slowness(workers_.stragglers().slowness(worker.rank()));
    worker.set_own_step_seconds(workers_.stragglers().own_seconds(worker.rank()));
  }
  status.set_job_file(cluster_.run.job.file);
  status.set_job_name(shown_name(cluster_.run.job));
  status.set_output(cluster_.run.job.output);
  status.set_state(shown_state());
  status.set_jobs_waiting(static_cast<int>(jobs_.queue().waiting().size()));
  takeover_.add_to(status);
  return status;
}

std::string Coordinator::shown_state() const {
  return cluster_.run.job.check ? "checking"
                                : state_name(cluster_.state, cluster_.run.config, cluster_.over);
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
  cluster_.metrics.set_waiting_jobs(jobs_.queue().waiting().size());
  cluster_.metrics.set_journal(takeover_.takeovers(), takeover_.failed_writes());
  const TimePoint now = Clock::now();
  takeover_.save_with_progress();
  cluster_.metrics.set_dropped_lines(cluster_.terminal.dropped_lines());
  return cluster_.metrics.text({.state = cluster_.state,
                                .config = cluster_.run.config,
                                .progress = cluster_.run.progress,
                                .stragglers = workers_.stragglers(),
                                .state_name = shown_state(),
                                .now = now});
}

void Coordinator::tick() {
  timer_.expires_after(cluster_.options.tick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !cluster_.closed) tick();
  });
  forgive_stall();
  const auto lost_after = cluster_.run.config.limits.silence;
  for (const std::string& line : quiet_hosts_.update(cluster_.state, lost_after, Clock::now())) {
    cluster_.terminal.note(line, Severity::kWarning);
  }
  workers_.expire(Clock::now());
  network_.update();
  traces_.expire(Clock::now());
  jobs_.log_requests().expire(Clock::now());
  agents_.fault_requests().expire(Clock::now());
  if (cluster_.state.job.id.empty()) agents_.release_silent(Clock::now());
  takeover_.update(Clock::now());
  advance();
  takeover_.save_if_due(Clock::now());
}

/// Time during which this process or its machine was suspended does not count as silence.
void Coordinator::forgive_stall() {
  const TimePoint now = Clock::now();
  const auto gap = now - std::exchange(last_tick_, now);
  if (gap < kStall) return;
  const std::string text =
      "the coordinator itself did not run for " +
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(gap).count()) +
      " s; this time does not count as silence of hosts and workers";
  cluster_.terminal.note(text, Severity::kWarning);
  cluster_.history.tell(ClusterEvent::Kind::kJob, Severity::kWarning, text);
  postpone(cluster_.state, gap);
  network_.postpone(gap);
  if (gap >= cluster_.options.coordinator_grace) agents_.excuse_local_agent(now + kAgentEnds);
}

void Coordinator::advance() {
  while (!cluster_.over && !cluster_.closed) {
    if (cluster_.state.job.id.empty() && !begin_next_job()) break;
    cluster_.history.observe(cluster_.state);
    const Decision decision = decide_now(Clock::now());
    set_reason(decision.reason, !has_own_line(decision));
    if (decision.actions.empty()) return;
    takeover_.save_soon();
    for (const Action& action : decision.actions) {
      checks_.note(action);
      apply(cluster_.state, action, Clock::now());
      perform(action);
    }
  }
  cluster_.history.observe(cluster_.state);
}

bool Coordinator::begin_next_job() {
  if (!jobs_.ending().empty()) {
    end_service();
    return false;
  }
  std::optional<Job> job = jobs_.take_next();
  if (!job) return false;
  cluster_.run = {
      .job = std::move(*job), .config = cluster_.options.rendezvous, .started = wall_now()};
  begin_job(cluster_.state, cluster_.run.job.id, cluster_.run.job.device, Clock::now());
  if (cluster_.run.job.check) {
    checks_.begin();
    network_.clear();  // measured again, as part of the check
  } else {
    cluster_.metrics.begin_job();
  }
  cluster_.reason.clear();
  cluster_.history.begin_job();
  cluster_.history.tell(ClusterEvent::Kind::kJob, Severity::kNote,
                        title_of(cluster_.run.job) + " begins");
  if (cluster_.options.is_service) cluster_.terminal.note(title_of(cluster_.run.job) + " begins");
  return true;
}

Decision Coordinator::decide_now(TimePoint now) const {
  return cluster_.run.job.check ? checks_.decide(now)
                                : decide(cluster_.state, cluster_.run.config, now);
}

void Coordinator::set_reason(const std::string& reason, bool tell) {
  const bool is_new = std::exchange(cluster_.reason, reason) != reason;
  if (is_new && tell) cluster_.terminal.note(cluster_.reason);
}

void Coordinator::perform(const Action& action) {
  const auto must_register = [this](const std::string& host) { agents_.must_register_again(host); };
  const auto end_workers = [this] {
    workers_.refuse_joins({.kind = Refusal::Kind::kOldGeneration, .message = "the job is ending"});
    agents_.send_desired();
  };
  std::visit(
      Overloaded{
          [&](const action::Blame& a) {
            const bool goes_on =
                cluster_.options.is_service || may_restart(cluster_.state, cluster_.run.config);
            if (goes_on) must_register(a.incident.host);
          },
          [&](const action::StartGeneration& a) { begin_generation(a); },
          [&](const action::AskToStop&) { workers_.ask_to_stop(); },
          [&](const action::Terminate&) { end_workers(); },
          [&](const action::Kill&) { end_workers(); },
          [&](const action::Describe& a) { workers_.ask_for_description(a.rank); },
          [&](const action::MeasureNetwork&) { network_.measure(); },
          [&](const action::ReleaseHosts& a) { std::ranges::for_each(a.hosts, must_register); },
          [&](const action::StopForHost& a) {
            cluster_.terminal.note(a.request.reason + ": the workers write a checkpoint and end",
                                   Severity::kWarning);
          },
          [&](const action::Finish&) { finish_job(); },
          // For these, apply() has done everything.
          [](const action::Count&) {},
          [](const action::ChangeBlame&) {},
          [](const action::BeginRegroup&) {},
      },
      action);
}

void Coordinator::begin_generation(const action::StartGeneration& start) {
  cluster_.run.cause = start.cause ? start.cause->text() : start.why;
  takeover_.save_now();  // before the generation's number is sent to anyone
  const auto fresh = std::ranges::count(start.members, 0, &Member::survivor);
  std::string text = "generation " + std::to_string(cluster_.state.job.current.number) +
                     ": starting " + counted(fresh, "worker");
  if (start.cause) cluster_.terminal.note(cluster_.run.cause, Severity::kWarning);
  if (cluster_.state.job.current.number > 1) {
    const auto stay = std::ssize(start.members) - fresh;
    text += ", and " + counted(stay, "worker") + (stay == 1 ? " stays" : " stay");
  }
  if (start.cause) {
    text += "; restart " + std::to_string(cluster_.state.job.restarts) + ", restarts left: " +
            std::to_string(restarts_left(cluster_.state, cluster_.run.config)) + " of " +
            std::to_string(cluster_.run.config.max_restarts);
  }
  cluster_.terminal.note(text);
  cluster_.history.begin_generation(
      cluster_.run.cause.empty() ? text : text + ". The cause: " + cluster_.run.cause);
  const std::string smaller =
      why_smaller(cluster_.state, cluster_.run.config.elastic, Clock::now());
  if (!smaller.empty()) cluster_.terminal.note(smaller);
  cluster_.metrics.begin_generation();
  if (start.cause) cluster_.metrics.count_restart(*start.cause);
  const Refusal over{.kind = Refusal::Kind::kOldGeneration,
                     .message = "a new generation has begun, because of " + cluster_.run.cause};
  traces_.end(over.message);
  workers_.end_generation(over);
  network_.set_local_address();
  agents_.send_desired();
  workers_.members_changed();  // workers of the last generation may wait for this one
  workers_.complete_join();
}

void Coordinator::finish_job() {
  cluster_.terminal.clear_progress();
  // Prints all failures, because workers only report them to the coordinator. A single one is
  // printed as the verdict.
  const std::vector<std::string> incidents = incident_lines(cluster_.state.job.current);
  if (incidents.size() > 1 && !cluster_.run.job.check) {
    for (const std::string& incident : incidents)
      cluster_.terminal.note(incident, Severity::kWarning);
  }
  const Verdict how = cluster_.run.job.check ? checks_.end() : verdict(cluster_.state);
  cluster_.history.tell(ClusterEvent::Kind::kJob,
                        how.kind == Verdict::Kind::kFailed ? Severity::kError : Severity::kNote,
                        how.message, how.rank);
  if (cluster_.options.is_service) return end_job(how);
  cluster_.over = true;
  takeover_.remove_journal();
  finished_(how);
}

void Coordinator::end_job(const Verdict& verdict) {
  cluster_.terminal.note(
      title_of(cluster_.run.job) + ": " + verdict.message,
      verdict.kind == Verdict::Kind::kFailed ? Severity::kError : Severity::kNote);
  jobs_.remember(verdict);
  const Refusal over{.kind = Refusal::Kind::kOldGeneration, .message = "the job has ended"};
  workers_.clear(over);
  traces_.end(over.message);
  cluster_.links.close_workers(over);
  const bool was_check = cluster_.run.job.check;
  if (!was_check) cluster_.metrics.count_job(name_of(verdict.kind));
  cluster_.run = {.config = cluster_.options.rendezvous};
  pfc::end_job(cluster_.state, Clock::now());
  takeover_.save_now();  // agents forget the job now
  agents_.send_desired();
  if (!was_check) agents_.release_once();
}

void Coordinator::end_service() {
  cluster_.over = true;
  cluster_.terminal.clear_progress();
  if (jobs_.queue().waiting().empty()) takeover_.remove_journal();
  finished_(jobs_.end_of_service());
}

}  // namespace pfc
