// pfc-worker: one rank of a job. With --coordinator it gets its job and its peers from there; with
// --config it trains the whole job alone.
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

#include "common/command_line.h"
#include "common/config/arcface_torch_keys.h"
#include "common/config/config.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/machine/exit_deadline.h"
#include "worker/comm/network_interface.h"
#include "worker/report/coordinator_client.h"
#include "worker/report/start_report.h"
#include "worker/train_loop.h"

namespace {

using namespace pfc;

constexpr std::chrono::seconds kExitLimit{20};  // for gRPC to end, after everything was reported

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  CoordinatorClientOptions coordinator;
  double join_timeout = 60;
  double collective_timeout = 300;
};

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(value * 1000)};
}

// The signal that asked for a stop; 0: none. Alone it is the first one. Written by the signal
// handlers only; lock-free, so safe there.
std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) { g_stop_signal = number; }

// Of a worker without a coordinator: a second signal ends it at once.
void on_signal_alone(int number) {
  on_signal(number);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_DFL);
}

CoordinatorClient::Outcome outcome_of(TrainingEnd end) {
  return end == TrainingEnd::kCompleted ? CoordinatorClient::Outcome::kCompleted
                                        : CoordinatorClient::Outcome::kStopped;
}

/// Thrown where the worker is asked to stop before it trains.
struct StoppedAtStart {};

TrainingEnd train_job_alone(const JobConfig& job) {
  StartReport start(nullptr, true);
  const auto stop_requested = [] { return g_stop_signal != 0; };
  try {
    TrainingSession session(
        job, {.stop_requested = stop_requested, .doing = [&](const std::string& what) {
                if (stop_requested()) throw StoppedAtStart{};
                start.tell(what);
              }});
    return train(session, nullptr);
  } catch (const StoppedAtStart&) {
    return TrainingEnd::kStopped;
  }
}

int train_alone(const Arguments& arguments) {
  const nlohmann::json written = read_job_file(arguments.config, arguments.overrides);
  const JobConfig job = parse_job(written, {arguments.config, arguments.overrides});
  for (const std::string& warning : ignored_key_warnings(written)) {
    spdlog::warn("{}: {}", arguments.config, warning);
  }
  const bool completed = train_job_alone(job) == TrainingEnd::kCompleted;
  return completed ? kExitSuccess : exit_code_of_signal(g_stop_signal);
}

// By default NCCL uses the first network interface that it finds: peers may not reach it, or, for a
// job of one host, it may be open to the whole network. A choice of the environment stands.
void keep_nccl_to_the_network_of(const std::string& own_address) {
  const std::string interface = network_interface_of(own_address);
  if (interface.empty()) return;
  setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);  // NOLINT(concurrency-mt-unsafe)
}

// NVLink switches that sum (NVLS) do so in any order, so that a job would give other bits in every
// run. A choice of the environment stands.
void keep_nccl_to_sums_in_order() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

// Joins a generation and trains in it.
TrainingEnd train_in_generation(CoordinatorClient& coordinator, const Arguments& arguments) {
  const JoinResult joined = coordinator.join(seconds(arguments.join_timeout));
  const JobConfig job = parse_job(nlohmann::json::parse(joined.job_json), "the coordinator's job");
  keep_nccl_to_the_network_of(joined.peer_address);
  keep_nccl_to_sums_in_order();
  std::optional<StartReport> start(std::in_place, &coordinator, joined.membership.rank == 0);
  TrainingSession session(
      job, {.job_id = arguments.coordinator.job_id,
            .membership = joined.membership,
            .store = &coordinator,
            .peer_address = joined.peer_address,
            .connect_timeout = seconds(arguments.join_timeout),
            .collective_timeout = seconds(arguments.collective_timeout),
            .stop_requested =
                [&coordinator] { return g_stop_signal != 0 || coordinator.stop_requested(); },
            .doing = [&](const std::string& what) { start->tell(what); }});
  start.reset();
  return train(session, &coordinator);
}

int run_with_coordinator(const Arguments& arguments) {
  const auto coordinator = connect_to_coordinator(arguments.coordinator);
  using Outcome = CoordinatorClient::Outcome;
  // The coordinator prints what is reported to it, once for all workers with the same failure.
  const auto fail = [&](const std::exception& error, Outcome outcome, int code) {
    const std::string what = text_of(error);
    const bool reported = coordinator->finish(outcome, what);
    if (!reported) spdlog::error("{}", what);
    end_process_after(kExitLimit, code);
    return code;
  };
  try {
    coordinator->finish(outcome_of(train_in_generation(*coordinator, arguments)), "");
    end_process_after(kExitLimit, kExitSuccess);
    return kExitSuccess;
  } catch (const CommError& error) {
    return fail(error, Outcome::kCommFailed, kExitPeerFailed);
  } catch (const InputError& error) {
    return fail(error, Outcome::kFailed, kExitBadInput);
  } catch (const std::exception& error) {
    return fail(error, Outcome::kFailed, kExitFailed);
  }
}

// SIGTERM comes from an agent or a person: a checkpoint of the last whole step, then the end. A
// terminal sends SIGINT to its whole process group; with a coordinator that one decides.
void handle_signals(bool alone) {
  std::signal(SIGPIPE, SIG_IGN);  // training goes on when nobody reads its lines any more
  std::signal(SIGTERM, alone ? on_signal_alone : on_signal);
  std::signal(SIGINT, alone ? on_signal_alone : SIG_IGN);
  // nohup ignores it.
  if (alone && std::signal(SIGHUP, SIG_IGN) != SIG_IGN) std::signal(SIGHUP, on_signal_alone);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Trains one rank of a job. Most often pfc-agent starts it; alone, with --config, it trains "
      "the whole job with one worker.",
      "pfc-worker");
  auto* config =
      app.add_option("--config", arguments.config, "The job file (docs/configuration.md)");
  app.add_option("--set", arguments.overrides,
                 "key=value: changes a key of the job file; may be given several times")
      ->needs(config);
  auto* coordinator = app.add_option("--coordinator", arguments.coordinator.address,
                                     "HOST:PORT of the coordinator");
  coordinator->excludes(config)->check(host_and_port());
  const std::vector<CLI::Option*> identity{
      app.add_option("--job", arguments.coordinator.job_id, "The id of the coordinator's job"),
      app.add_option("--agent", arguments.coordinator.agent_id,
                     "The id of the pfc-agent that starts it"),
      app.add_option("--slot", arguments.coordinator.slot,
                     "Its place among the workers of its host")
          ->check(whole_number(0, std::numeric_limits<int>::max())),
      app.add_option("--incarnation", arguments.coordinator.incarnation,
                     "Which process in this slot it is")};
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
  app.footer(
      "Alone, a first SIGINT, SIGTERM or SIGHUP ends it after a checkpoint, a second one at once.\n"
      "Exit codes: docs/exit-codes.md.");
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  const bool alone = arguments.coordinator.address.empty();
  if (alone && arguments.config.empty()) {
    throw InputError("give --config JOB.json, or --coordinator HOST:PORT (pfc-worker --help)");
  }
  // Messages go to stderr, so that stdout has the training lines alone.
  set_up_log("pfc-worker");
  handle_signals(alone);
  return alone ? train_alone(arguments) : run_with_coordinator(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("pfc-worker", [&] { return run(argc, argv); });
}
