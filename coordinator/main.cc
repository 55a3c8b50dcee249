// pfc-coordinator: starts a training job on its hosts, watches it, and ends when it has ended.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/command_line.h"
#include "common/config/arcface_torch_keys.h"
#include "common/config/config.h"
#include "common/coordinator_file.h"
#include "common/counted.h"
#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/machine/descriptors.h"
#include "common/machine/event_loop.h"
#include "common/machine/exit_deadline.h"
#include "common/machine/stop_signals.h"
#include "common/random_id.h"
#include "coordinator/coordinator.h"
#include "coordinator/local_agent.h"
#include "coordinator/report/background_output.h"
#include "coordinator/rpc/service.h"
#include "coordinator/web/http_server.h"
#include "coordinator/web/pages.h"

namespace pfc {
namespace {

namespace asio = boost::asio;

// For gRPC and the agent to end, and for the output to be read.
constexpr std::chrono::seconds kExitLimit{20};
constexpr std::chrono::seconds kReaderLimit{2};

struct Options {
  std::string hosts = "localhost";
  std::filesystem::path config;
  std::vector<std::string> overrides;
  int port = 7450;
  int http_port = 7451;
  double start_timeout = 60;
  double collective_timeout = 300;
  double stop_timeout = 60;
  std::filesystem::path state_dir = default_state_folder();
};

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(value * 1000)};
}

void declare(CLI::App& app, Options& options) {
  const auto any_port = whole_number(0, 65'535);
  app.add_option(
         "--hosts", options.hosts,
         "NAME[:SLOTS][,NAME[:SLOTS]...]: the hosts, and how many workers each starts. Without a "
         "number: one for each GPU, or one where there is no GPU")
      ->capture_default_str();
  app.add_option("--config", options.config, "The job file (JSON)")->required();
  app.add_option("--set", options.overrides,
                 "key=value: changes a key of the job file, for example lr=0.02 or "
                 "lr_schedule.power=2; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--port", options.port, "Port for agents and workers; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--http-port", options.http_port,
                 "Port of the status page and of /metrics; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--start-timeout", options.start_timeout,
                 "Time for hosts to register, and for workers to join and connect: seconds, or "
                 "90s, 2min")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--collective-timeout", options.collective_timeout,
                 "Time that a worker waits for the others in one collective before it fails")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--stop-timeout", options.stop_timeout,
                 "Time for workers to write a checkpoint and end after a signal or pfcctl stop")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir,
                 "Folder in which pfcctl finds the addresses of this user's coordinators")
      ->capture_default_str();
  app.footer(
      "A first SIGINT (Ctrl-C), SIGTERM or SIGHUP lets the workers write a checkpoint and end; a "
      "second one leaves them 5 s, then they are killed.\n"
      "Exit codes: 0 completed; 1 the job failed, or workers had to be killed; 2 bad input;\n"
      "3 a host, worker or GPU was missing at the start; 130, 143, 129: ended after a\n"
      "checkpoint by SIGINT, by SIGTERM or pfcctl stop, by SIGHUP (docs/exit-codes.md).");
}

int exit_code(const Verdict& verdict, std::optional<int> signal) {
  switch (verdict.kind) {
    case Verdict::Kind::kCompleted:
      return kExitSuccess;
    case Verdict::Kind::kStopped:  // without a signal: by pfcctl stop
      return exit_code_of_signal(signal.value_or(SIGTERM));
    case Verdict::Kind::kFailed:
      break;
  }
  if (verdict.at_start) return kExitNotStarted;
  return verdict.worker_exit_code == kExitBadInput ? kExitBadInput : kExitFailed;
}

/// The last line says how the job has ended.
void tell_end(Terminal& terminal, const Verdict& verdict) {
  if (const std::uint64_t lines = terminal.dropped_lines(); lines > 0) {
    terminal.note(counted(static_cast<long long>(lines), "line") +
                      " of output could not be written, as nobody read stdout or stderr",
                  Severity::kWarning);
  }
  terminal.note(verdict.message,
                verdict.kind == Verdict::Kind::kFailed ? Severity::kError : Severity::kNote);
}

/// What a person must do on the hosts of which this machine is none.
void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts,
                      const std::string& address) {
  if (std::ranges::find(hosts, false, &HostSpec::local) != hosts.end()) {
    terminal.note(
        "listening on all network interfaces, without encryption: use trusted networks only",
        Severity::kWarning);
  }
  for (const HostSpec& host : hosts) {
    if (host.local) continue;
    terminal.note("host " + host.name + ": " +
                      agent_advice(address, {.name = host.name, .resolves = host.resolves}),
                  host.resolves ? Severity::kNote : Severity::kWarning);
  }
}

int run_job(const Options& options) {
  const std::vector<HostSpec> hosts = parse_hosts(options.hosts);
  const nlohmann::json written = read_job_file(options.config, options.overrides);
  // A bad job is refused here, before anything has started.
  const JobConfig job = parse_job(written, {options.config.string(), options.overrides});
  if (const int workers = workers_of(hosts)) check_batch_norm_samples(job, workers);

  const auto remote = std::ranges::find(hosts, false, &HostSpec::local);
  const bool all_local = remote == hosts.end();
  const std::string bind = all_local ? "127.0.0.1" : "0.0.0.0";
  const std::string reachable = all_local ? bind : address_towards(remote->name);

  BackgroundOutput output(STDOUT_FILENO, STDERR_FILENO);
  asio::io_context loop(1);
  Terminal terminal(output, isatty(STDERR_FILENO) == 1, stderr_has_colour());
  for (const std::string& warning : ignored_key_warnings(written)) {
    terminal.note(options.config.string() + ": " + warning, Severity::kWarning);
  }
  std::optional<Verdict> verdict;
  CoordinatorOptions settings{
      .job_id = random_id(), .hosts = hosts, .job_json = to_json(job).dump(), .rendezvous = {}};
  settings.rendezvous.limits.start = seconds(options.start_timeout);
  settings.rendezvous.device = job.device;
  settings.rendezvous.stop = seconds(options.stop_timeout);
  settings.collective_timeout = seconds(options.collective_timeout);
  Coordinator coordinator(loop, settings, terminal, [&](const Verdict& end) {
    verdict = end;
    loop.stop();
  });
  Service service(loop, coordinator, bind, options.port);
  const HttpServer http(loop, bind, options.http_port,
                        [&](std::string_view path) { return serve_page(coordinator, path); });
  const std::string address = reachable + ":" + std::to_string(service.port());
  const std::string http_address = reachable + ":" + std::to_string(http.port());
  const PublishedCoordinator published(options.state_dir, {.job_id = settings.job_id,
                                                           .address = address,
                                                           .http_address = http_address,
                                                           .pid = getpid(),
                                                           .job = options.config.string()});
  terminal.note("job " + settings.job_id + ", listening on " + address + " and http://" +
                http_address);
  // The first signal ends the job after a checkpoint, the second one in a few seconds.
  const StopSignals signals(loop, [&](int number, bool again) {
    coordinator.stop(std::string("SIG") + sigabbrev_np(number), again);
  });
  tell_other_hosts(terminal, hosts, address);
  std::optional<LocalAgent> agent;
  const auto here = std::ranges::find(hosts, true, &HostSpec::local);
  if (here != hosts.end()) {
    try {
      agent.emplace(loop, "127.0.0.1:" + std::to_string(service.port()), here->name,
                    [&](const ProcessExit& exit) { coordinator.local_agent_ended(exit); });
    } catch (const std::exception& error) {
      coordinator.local_agent_not_started(text_of(error));
    }
  }
  coordinator.start(address);
  run_event_loop(loop, [&](const std::string& what) {
    terminal.note("an event was not handled: " + what, Severity::kWarning);
  });
  const int code = exit_code(*verdict, signals.first());
  tell_end(terminal, *verdict);
  // From here on the job has ended, and what follows must not hold the program.
  end_process_after(kExitLimit, code);
  const bool closed = service.shut_down();
  agent.reset();
  if (!closed) {
    output.finish(kReaderLimit);
    _exit(code);
  }
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Starts a training job on its hosts, and ends when the job has ended.",
               "pfc-coordinator");
  Options options;
  declare(app, options);
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  return run_job(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  pfc::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // the job goes on when its output is no longer read
  // gRPC's own log is for its developers; errors are reported as messages of this program.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  return pfc::run_program("pfc-coordinator", [&] { return pfc::run(argc, argv); });
}
