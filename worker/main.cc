// pfc-worker: one rank of a job. With --coordinator it receives the job and its peers from the
// coordinator. With --config it trains the whole job alone.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/network_interface.h"
#include "common/command_line.h"
#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/machine/limits.h"
#include "common/process/exit_deadline.h"
#include "worker/check/check.h"
#include "worker/coordinator_link/coordinator_client.h"
#include "worker/coordinator_link/start_report.h"
#include "worker/report/stack_trace.h"
#include "worker/train_loop.h"

namespace {

using namespace pfc;

constexpr int kOwnFiles = 24;  // file descriptors, without connections to other workers
// The time that gRPC may take to shut down after everything was reported.
constexpr std::chrono::seconds kExitLimit{20};

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  CoordinatorClientOptions coordinator;
  std::string credential;
  double join_timeout = 60;
  double collective_timeout = 300;
  double coordinator_grace = 0;
};

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(value * 1000)};
}

// The signal that requested a stop; 0: none. Without a coordinator, it is the first signal that
// this process received. Only signal handlers write it. It is lock-free, as a signal handler
// requires.
std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) { g_stop_signal = number; }

// Handler for a worker without a coordinator: a second signal ends it at once.
void on_signal_alone(int number) {
  on_signal(number);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_DFL);
}

CoordinatorClient::Outcome outcome_of(TrainingEnd end) {
  return end == TrainingEnd::kCompleted ? CoordinatorClient::Outcome::kCompleted
                                        : CoordinatorClient::Outcome::kStopped;
}

/// Thrown when the worker is asked to stop before training starts.
struct StoppedAtStart {};

/// During its lifetime, the waits of this generation end when the generation is superseded.
class SupersededGuard {
 public:
  /// Borrows its arguments; `coordinator` may be null.
  SupersededGuard(CoordinatorClient* coordinator, AbortSwitch& abort_switch)
      : coordinator_(coordinator) {
    if (coordinator_ == nullptr) return;
    coordinator_->on_superseded([&abort_switch](const std::string& why) {
      abort_switch.abort("this generation has ended: " + why);
    });
  }
  ~SupersededGuard() {
    if (coordinator_ != nullptr) coordinator_->on_superseded({});
  }
  SupersededGuard(const SupersededGuard&) = delete;
  SupersededGuard& operator=(const SupersededGuard&) = delete;

 private:
  CoordinatorClient* const coordinator_;
};

/// Creates the session, reports the progress of the start, and trains. `coordinator` may be null.
TrainingEnd start_and_train(const JobConfig& job, SessionOptions options,
                            CoordinatorClient* coordinator) {
  AbortSwitch abort_switch;
  options.abort_switch = &abort_switch;
  const SupersededGuard superseded(coordinator, abort_switch);
  std::optional<StartReport> start(std::in_place, coordinator, options.membership.rank == 0);
  options.doing = [&](const std::string& what) {
    // With a coordinator, the coordinator ends a worker that does not train yet.
    if (coordinator == nullptr && options.stop_requested()) throw StoppedAtStart{};
    start->tell(what);
  };
  try {
    TrainingSession session(job, options);
    start.reset();
    try {
      return train(session, coordinator);
    } catch (const std::exception& error) {
      abort_switch.abort(text_of(error));  // the session's threads may wait for other workers
      throw;
    }
  } catch (const StoppedAtStart&) {
    return TrainingEnd::kStopped;
  }
}

int train_alone(const Arguments& arguments) {
  const nlohmann::json written = read_job_file(arguments.config, arguments.overrides);
  JobConfig job = parse_job(written, {arguments.config, arguments.overrides});
  if (std::exchange(job.replicate, false)) {
    spdlog::warn(
        "{}: replicate: found true, but without a coordinator there is no other worker that could "
        "keep a copy; this key has no effect",
        arguments.config);
  }
  for (const std::string& warning : ignored_key_warnings(written)) {
    spdlog::warn("{}: {}", arguments.config, warning);
  }
  const TrainingEnd end =
      start_and_train(job, {.stop_requested = [] { return g_stop_signal != 0; }}, nullptr);
  const bool completed = end == TrainingEnd::kCompleted;
  return completed ? kExitSuccess : exit_code_of_signal(g_stop_signal);
}

// By default NCCL uses the first network interface that it finds, and the interface's IPv4 address.
// Peers may be unable to reach this address; for a job of one host, it may be open to the whole
// network. A value that is already in the environment is kept.
void keep_nccl_to_the_network_of(const std::string& own_address) {
  const std::string interface = network_interface_of(own_address);
  if (interface.empty()) return;
  const bool is_v6 = own_address.find(':') != std::string::npos;
  // NOLINTBEGIN(concurrency-mt-unsafe)
  setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);
  setenv("NCCL_SOCKET_FAMILY", is_v6 ? "AF_INET6" : "AF_INET", 0);
  // NOLINTEND(concurrency-mt-unsafe)
}

// NVLink switches that sum (NVLS) add in any order, so each run of a job would give different bits.
// A value that is already in the environment is kept.
void keep_nccl_to_sums_in_order() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

/// Compares this host's clock with the coordinator's. Uses the fastest of several answers.
CheckFinding clock_finding(CoordinatorClient& coordinator) {
  using std::chrono::system_clock;
  constexpr int kQuestions = 5;
  double best = std::numeric_limits<double>::max(), ahead = 0;
  for (int i = 0; i < kQuestions; ++i) {
    const auto before = system_clock::now();
    const auto there = coordinator.report_check({});
    const auto after = system_clock::now();
    const double took = std::chrono::duration<double>(after - before).count();
    if (took >= best) continue;
    best = took;
    ahead = std::chrono::duration<double>(before - there).count() + took / 2;
  }
  return finding_of_clock(ahead, best / 2);
}

/// Runs one part of a check instead of training.
void check_in_generation(const JobConfig& job, GenerationKind kind, SessionOptions options,
                         CoordinatorClient& coordinator) {
  AbortSwitch abort_switch;
  options.abort_switch = &abort_switch;
  const SupersededGuard superseded(&coordinator, abort_switch);
  StartReport start(&coordinator, false);
  options.doing = [&](const std::string& what) { start.tell(what); };
  const auto tell = [&](const std::vector<CheckFinding>& found) {
    coordinator.report_check(found);
  };
  try {
    if (kind == GenerationKind::kCheckTogether) return check_together(job, options, tell);
    if (options.membership.local_rank == 0) tell({clock_finding(coordinator)});
    check_alone(job, options, tell);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {  // a training worker would end with the same error
    tell({unexpected_finding(error)});
  }
}

// Joins a generation and trains in it. `patience`: timeout for the other workers to join.
TrainingEnd train_in_generation(CoordinatorClient& coordinator, const Arguments& arguments,
                                SnapshotStore& snapshots, std::chrono::milliseconds patience) {
  const JoinResult joined = coordinator.join(patience);
  const JobConfig job = parse_job(nlohmann::json::parse(joined.job_json), "the coordinator's job");
  keep_nccl_to_the_network_of(joined.peer_address);
  keep_nccl_to_sums_in_order();
  const SessionOptions options{
      .job_id = arguments.coordinator.job_id,
      .membership = joined.membership,
      .store = &coordinator,
      .peer_address = joined.peer_address,
      .host = joined.host,
      .connect_timeout = seconds(arguments.join_timeout),
      .collective_timeout = seconds(arguments.collective_timeout),
      .stop_requested =
          [&coordinator] { return g_stop_signal != 0 || coordinator.stop_requested(); },
      .checkpoint_step = joined.checkpoint_step,
      .checkpoint_host = joined.checkpoint_host,
      .planned_workers = joined.planned_workers,
      .snapshots = &snapshots};
  if (joined.kind == GenerationKind::kTraining) return start_and_train(job, options, &coordinator);
  check_in_generation(job, joined.kind, options, coordinator);
  return TrainingEnd::kCompleted;
}

/// Trains in one generation after another until the job has ended for this worker. Returns the
/// exit code. Throws InputError, DeviceError.
int train_in_generations(CoordinatorClient& coordinator, const Arguments& arguments) {
  SnapshotStore snapshots;
  std::chrono::milliseconds patience = seconds(arguments.join_timeout);
  while (true) {
    try {
      const TrainingEnd end = train_in_generation(coordinator, arguments, snapshots, patience);
      // Another worker may have been lost before it finished. Then all workers resume from the last
      // saved state.
      if (!coordinator.finish(outcome_of(end), "").join_again) return kExitSuccess;
    } catch (const CommError& error) {
      const auto farewell =
          coordinator.finish(CoordinatorClient::Outcome::kCommFailed, text_of(error));
      if (!farewell.told) spdlog::error("{}", text_of(error));
      if (!farewell.join_again) return kExitPeerFailed;
    }
    patience = 2 * seconds(arguments.join_timeout);  // lost hosts may need time to return
  }
}

int run_with_coordinator(const Arguments& arguments) {
  const auto coordinator = connect_to_coordinator(arguments.coordinator);
  using Outcome = CoordinatorClient::Outcome;
  const auto end = [](int code) {
    end_process_after(kExitLimit, code);
    return code;
  };
  // Prints the error only if the coordinator has not received it. The coordinator prints a failure
  // once for all workers that report it.
  const auto fail = [&](const std::exception& error, Outcome outcome, int code) {
    const std::string what = text_of(error);
    if (!coordinator->finish(outcome, what).told) spdlog::error("{}", what);
    return end(code);
  };
  try {
    return end(train_in_generations(*coordinator, arguments));
  } catch (const InputError& error) {
    return fail(error, Outcome::kBadInput, kExitBadInput);
  } catch (const std::exception& error) {
    return fail(error, Outcome::kFailed, kExitFailed);
  }
}

// SIGTERM comes from an agent or a user: the worker then writes a checkpoint of the last complete
// step and ends. A terminal sends SIGINT to its whole process group; with a coordinator, the worker
// ignores SIGINT, and the coordinator decides.
void handle_signals(bool alone) {
  std::signal(SIGPIPE, SIG_IGN);  // keep training after the reader of stdout has closed it
  write_stack_on_signal();
  std::signal(SIGTERM, alone ? on_signal_alone : on_signal);
  std::signal(SIGINT, alone ? on_signal_alone : SIG_IGN);
  // nohup ignores SIGHUP; keep it ignored.
  if (alone && std::signal(SIGHUP, SIG_IGN) != SIG_IGN) std::signal(SIGHUP, on_signal_alone);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Trains one rank of a job; pfc-agent usually starts it. With --config, trains a whole job "
      "with one worker.",
      "pfc-worker");
  auto* config =
      app.add_option("--config", arguments.config, "The job file (docs/configuration.md)");
  app.add_option("--set", arguments.overrides,
                 "key=value: changes a key of the job file. May be repeated")
      ->needs(config);
  auto* coordinator = app.add_option("--coordinator", arguments.coordinator.address,
                                     "HOST:PORT of the coordinator");
  coordinator->excludes(config)->check(host_and_port());
  app.add_option("--credential", arguments.credential,
                 "A file with key and certificates, for a coordinator over TLS; '-': stdin")
      ->needs(coordinator);
  const std::vector<CLI::Option*> identity{
      app.add_option("--job", arguments.coordinator.job_id, "The id of the coordinator's job"),
      app.add_option("--agent", arguments.coordinator.agent_id,
                     "The id of the pfc-agent that starts this worker"),
      app.add_option("--slot", arguments.coordinator.slot,
                     "Number of this worker on its host, from 0")
          ->check(whole_number(0, std::numeric_limits<int>::max())),
      app.add_option("--incarnation", arguments.coordinator.incarnation,
                     "Number of this process among those started in its slot")};
  for (CLI::Option* each : identity) {
    each->needs(coordinator);
    coordinator->needs(each);
  }
  app.add_option("--join-timeout", arguments.join_timeout,
                 "Seconds to wait for the other workers to join and to connect")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--collective-timeout", arguments.collective_timeout,
                 "Seconds to wait for the other workers in one collective")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--coordinator-grace", arguments.coordinator_grace,
                 "Seconds to wait for a coordinator that has disappeared, when this worker joins "
                 "or reports its end. Steps do not wait for a coordinator")
      ->transform(duration(true))
      ->capture_default_str();
  app.footer(
      "With --config, SIGINT, SIGTERM or SIGHUP ends training after a checkpoint; a second signal\n"
      "ends it at once.\n"
      "Exit codes: docs/exit-codes.md.");
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  if (!arguments.credential.empty()) {
    arguments.coordinator.credential = read_credential(arguments.credential);
  }
  arguments.coordinator.grace = seconds(arguments.coordinator_grace);
  arguments.coordinator.gives_up = [] { return g_stop_signal != 0; };
  const bool alone = arguments.coordinator.address.empty();
  if (alone && arguments.config.empty()) {
    throw InputError("give --config JOB.json, or --coordinator HOST:PORT (pfc-worker --help)");
  }
  // Messages go to stderr, so stdout has only training lines.
  set_up_log("pfc-worker");
  handle_signals(alone);
  expect_limits({.files = kOwnFiles});
  return alone ? train_alone(arguments) : run_with_coordinator(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("pfc-worker", [&] { return run(argc, argv); });
}
