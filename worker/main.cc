// pfc-worker: one rank of a job. With a coordinator it is told its job and its peers; alone it
// trains with one worker.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/error.h"
#include "common/log.h"
#include "worker/comm/network_interface.h"
#include "worker/report/coordinator_client.h"
#include "worker/train_loop.h"

namespace {

using namespace pfc;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string coordinator;
  int rank = 0;
  Generation generation = 1;
  double join_timeout = 60;
  double collective_timeout = 300;
};

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(value * 1000)};
}

// Exit codes: what the agent and a shell see.
constexpr int kCompleted = 0;
constexpr int kFailed = 1;
constexpr int kBadInput = 2;
constexpr int kCommFailed = 3;

// Written by the signal handler only; lock-free, so safe there.
std::atomic<bool> g_stop_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) { g_stop_signal = true; }

CoordinatorClient::Outcome outcome_of(TrainingEnd end) {
  return end == TrainingEnd::kCompleted ? CoordinatorClient::Outcome::kCompleted
                                        : CoordinatorClient::Outcome::kStopped;
}

void train_alone(const Arguments& arguments) {
  const JobConfig job =
      parse_job(read_job_file(arguments.config, arguments.overrides), arguments.config);
  TrainingSession session(job, {.stop_requested = [] { return g_stop_signal.load(); }});
  train(session, nullptr);
}

// NCCL would take the first card that it finds: one that peers cannot reach perhaps, or, for a job
// of one host, one that listens to the whole network. A person's own choice stands.
void keep_nccl_to_the_network_of(const std::string& own_address) {
  const std::string interface = network_interface_of(own_address);
  if (interface.empty()) return;
  setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);  // NOLINT(concurrency-mt-unsafe)
}

// A switch that sums (NVLS) takes what it gets in any order: the same job would have other bits in
// every run. A person's own choice stands.
void keep_nccl_to_sums_in_order() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

// Joins a generation and trains in it.
TrainingEnd train_in_generation(CoordinatorClient& coordinator, const Arguments& arguments) {
  const JoinResult joined = coordinator.join(seconds(arguments.join_timeout));
  const JobConfig job = parse_job(nlohmann::json::parse(joined.job_json), "the coordinator's job");
  keep_nccl_to_the_network_of(joined.peer_address);
  keep_nccl_to_sums_in_order();
  TrainingSession session(job, {.membership = joined.membership,
                                .store = &coordinator,
                                .peer_address = joined.peer_address,
                                .connect_timeout = seconds(arguments.join_timeout),
                                .collective_timeout = seconds(arguments.collective_timeout),
                                .stop_requested = [&coordinator] {
                                  return g_stop_signal.load() || coordinator.stop_requested();
                                }});
  return train(session, &coordinator);
}

int run_with_coordinator(const Arguments& arguments) {
  const auto coordinator = connect_to_coordinator({.address = arguments.coordinator,
                                                   .rank = arguments.rank,
                                                   .generation = arguments.generation});
  using Outcome = CoordinatorClient::Outcome;
  const auto fail = [&](const std::exception& error, Outcome outcome, int code) {
    coordinator->finish(outcome, error.what());
    std::fprintf(stderr, "pfc-worker: rank %d: %s\n", arguments.rank, error.what());
    return code;
  };
  try {
    coordinator->finish(outcome_of(train_in_generation(*coordinator, arguments)), "");
    return kCompleted;
  } catch (const CommError& error) {
    // The peer that this one misses is the cause, not this one.
    return fail(error, Outcome::kCommFailed, kCommFailed);
  } catch (const InputError& error) {
    return fail(error, Outcome::kFailed, kBadInput);
  } catch (const std::exception& error) {
    return fail(error, Outcome::kFailed, kFailed);
  }
}

int run(const Arguments& arguments) {
  if (!arguments.coordinator.empty()) return run_with_coordinator(arguments);
  train_alone(arguments);
  return kCompleted;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "pfc-worker trains one rank of a job. Most often pfc-agent starts it; alone, with "
      "--config, it trains the whole job with one worker.");
  auto* config = app.add_option("--config", arguments.config, "job file (docs/configuration.md)");
  app.add_option("--set", arguments.overrides, "key=value, overrides the job file; repeatable")
      ->needs(config);
  auto* coordinator = app.add_option("--coordinator", arguments.coordinator, "HOST:PORT to join");
  coordinator->excludes(config);
  app.add_option("--rank", arguments.rank, "rank in the generation")->needs(coordinator);
  app.add_option("--generation", arguments.generation, "generation to join")->needs(coordinator);
  app.add_option("--join-timeout", arguments.join_timeout,
                 "seconds to wait for the other workers to join and to connect")
      ->capture_default_str();
  app.add_option("--collective-timeout", arguments.collective_timeout,
                 "seconds to wait for the other workers in one collective")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (arguments.config.empty() && arguments.coordinator.empty()) {
    std::fprintf(stderr, "pfc-worker: give --config JOB.json, or --coordinator (see --help)\n");
    return kBadInput;
  }

  set_up_log("pfc-worker", "info");  // stderr: stdout has the training lines alone
  // SIGTERM (an agent's or a person's): checkpoint after this step and end. SIGINT reaches the
  // whole process group of a terminal; under a coordinator it is the coordinator's to handle.
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, arguments.coordinator.empty() ? on_signal : SIG_IGN);
  try {
    return run(arguments);
  } catch (const InputError& error) {
    std::fprintf(stderr, "pfc-worker: %s\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pfc-worker: %s\n", error.what());
    return kFailed;
  }
}
