// pfc-agent: starts and watches the workers of one host for a coordinator.
#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "agent/agent.h"
#include "agent/host_name.h"
#include "agent/join_options.h"
#include "common/command_line.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/machine/cores.h"
#include "common/machine/descriptors.h"
#include "common/machine/limits.h"
#include "common/process/child_process.h"
#include "common/process/event_loop.h"
#include "common/process/exit_deadline.h"
#include "common/process/stop_signals.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kExitLimit{20};  // for gRPC and the worker processes to end
constexpr int kOwnFiles = 24;  // files of the agent, with the pipes of a starting worker

/// Returns and unsets the agent id chosen by the coordinator that started this agent. Workers
/// inherit the environment and must not see it.
std::string given_id() {
  const char* const id = std::getenv(kAgentIdVariable);  // NOLINT(concurrency-mt-unsafe)
  const std::string given = id == nullptr ? "" : id;
  unsetenv(kAgentIdVariable);  // NOLINT(concurrency-mt-unsafe)
  return given;
}

/// Returns and unsets the grace period of the coordinator that started this agent.
std::chrono::milliseconds given_grace() {
  const char* const grace = std::getenv(kAgentGraceVariable);  // NOLINT(concurrency-mt-unsafe)
  const std::chrono::milliseconds given{grace == nullptr ? 0 : std::strtoll(grace, nullptr, 10)};
  unsetenv(kAgentGraceVariable);  // NOLINT(concurrency-mt-unsafe)
  return given;
}

int run_agent(const AgentOptions& options) {
  boost::asio::io_context loop(1);
  std::string problem;
  Agent agent(loop, options, [&](const std::string& why) {
    problem = why;
    loop.stop();
  });
  // The first signal makes the job write a checkpoint; the second kills this host's workers.
  const StopSignals signals(loop, [&agent](int number, bool again) {
    if (!again) return agent.leave(std::string("SIG") + sigabbrev_np(number));
    agent.end({});
    agent.kill_workers();
  });
  // Sent by the kernel, perhaps repeatedly, when the coordinator that started this agent dies.
  boost::asio::signal_set orphaned(loop, kParentDeathSignal);
  orphaned.async_wait([&agent](const boost::system::error_code& error, int) {
    if (!error) agent.coordinator_killed();
  });
  run_event_loop(loop, [](const std::string& what) {
    print_message("pfc-agent", Severity::kWarning,
                  "internal error; the program continues: " + what);
  });
  const int code = signals.first()   ? exit_code_of_signal(*signals.first())
                   : problem.empty() ? kExitSuccess
                                     : kExitFailed;
  if (code == kExitFailed) print_message("pfc-agent", Severity::kError, problem);
  end_process_after(kExitLimit, code);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Starts and watches the workers of this host for a coordinator.", "pfc-agent");
  AgentOptions options{.host = scheduled_host_name(),
                       .id = given_id(),
                       .worker_program = program_folder() / "pfc-worker"};
  options.log_folder = default_log_folder();
  options.first_coordinator_grace = given_grace();
  double patience = 30, grace = 30, coordinator_grace = 0;
  JoinOptions joining;
  joining.declare(app, options.coordinator);
  app.add_option("--host", options.host,
                 "This host's name in the coordinator's --hosts. Default: the name that Slurm, "
                 "mpirun or Kubernetes uses, otherwise the host name")
      ->capture_default_str();
  app.add_option("--bind", options.bind,
                 "Cores that each worker may use. cores: its share of the host's cores, near its "
                 "GPU if possible. numa: all cores of the NUMA nodes that contain its share. none: "
                 "all cores")
      ->transform(choice_of({"none", "numa", "cores"}))  // in the order of BindMode
      ->type_name("TEXT")
      ->envname("PFC_BIND")
      ->default_str("numa");
  app.add_option("--patience", patience,
                 "Timeout for the first connection to a coordinator: seconds, or 90s, 2min. An "
                 "agent that stays (--stay) tries forever")
      ->transform(duration())
      ->capture_default_str();
  auto* const waits =
      app.add_option(
             "--coordinator-grace", coordinator_grace,
             "How long this host's workers keep training after the coordinator has disappeared. "
             "Until then a new coordinator can take over. Default: the coordinator's "
             "--coordinator-grace")
          ->transform(duration(true));
  app.add_option("--grace", grace,
                 "Time for a checkpoint when SIGTERM or Ctrl-C drains this host; then its workers "
                 "are killed")
      ->transform(duration())
      ->capture_default_str();
  bool is_once = false;
  auto* const once = app.add_flag(
      "--once", is_once,
      "Ends the agent when the job ends, as mpirun and srun require. Default with --coordinator");
  app.add_flag("--stay", options.stays,
               "Serves one job after another, and reconnects forever, even after the coordinator "
               "has ended. Default with a join string")
      ->excludes(once);
  app.add_option("--log-dir", options.log_folder,
                 "Folder for the logs of this host's workers, JOB/rank-R.log. Keeps the last 50 "
                 "MiB of each worker and the last 20 jobs; '' stores no logs")
      ->capture_default_str();
  app.add_flag("--allow-chaos", options.allow_chaos,
               "Allows pfcctl chaos to kill and stop this host's workers, kill this agent, and cut "
               "the host off from the job's other hosts (docs/chaos.md)");
  app.footer("Exit codes: docs/exit-codes.md.");
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  expect_limits({.files = kOwnFiles});
  static_cast<void>(threads_asked_for());  // report a bad value before the agent starts to wait
  options.gpus = usable_gpus();
  options.patience = std::chrono::milliseconds{static_cast<std::int64_t>(patience * 1000)};
  if (waits->count() > 0) {
    options.coordinator_grace =
        std::chrono::milliseconds{static_cast<std::int64_t>(coordinator_grace * 1000)};
  }
  options.leave_grace = std::chrono::milliseconds{static_cast<std::int64_t>(grace * 1000)};
  joining.apply(options, is_once);
  return run_agent(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  pfc::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // the terminal may be closed while it runs
  return pfc::run_program("pfc-agent", [&] { return pfc::run(argc, argv); });
}
