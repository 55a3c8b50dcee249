// pfc-coordinator: starts a training job on its hosts and sees it through to its end.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/config/config.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/version.h"
#include "coordinator/coordinator.h"
#include "coordinator/local_agent.h"
#include "coordinator/service.h"
#include "coordinator/web/http_server.h"
#include "coordinator/web/pages.h"

namespace pfc {
namespace {

namespace asio = boost::asio;

// Exit codes, as --help tells them.
constexpr int kJobFailed = 1;
constexpr int kBadInput = 2;
constexpr int kStartFailed = 3;
constexpr int kSignalBase = 128;

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
  const std::map<std::string, double> units{{"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}};
  const auto duration = CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_OPTIONAL, "TIME");
  const auto any_port = CLI::Range(0, 65'535);
  app.add_option(
         "--hosts", options.hosts,
         "NAME[:SLOTS][,NAME[:SLOTS]...]: workers on each host; one a GPU where no number is "
         "given, or one where there is no GPU")
      ->capture_default_str();
  app.add_option("--config", options.config, "The job file (JSON)")->required();
  app.add_option("--set", options.overrides, "key=value: replaces a key of the job file")
      ->allow_extra_args(false);
  app.add_option("--port", options.port, "For agents and workers; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--http-port", options.http_port, "Status page and /metrics; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--start-timeout", options.start_timeout,
                 "Seconds for hosts to register, and for workers to join and connect; or 90s, 2min")
      ->transform(duration)
      ->capture_default_str();
  app.add_option("--collective-timeout", options.collective_timeout,
                 "Seconds that a worker waits for the others in one collective before it fails")
      ->transform(duration)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--stop-timeout", options.stop_timeout,
                 "Seconds for workers to checkpoint and end after SIGINT or SIGTERM")
      ->transform(duration)
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir, "Where pfcctl finds this coordinator")
      ->capture_default_str();
  app.set_version_flag("--version", version());
  app.footer(
      "Exit codes: 0 completed; 1 the job failed; 2 bad input; 3 a host or worker never came;\n"
      "130, 143 stopped by SIGINT, SIGTERM (the workers have written a checkpoint).");
}

/// The signals that ask for an end: the first one politely, the second one at once.
class StopSignals {
 public:
  StopSignals(asio::io_context& loop, Coordinator& coordinator)
      : signals_(loop, SIGINT, SIGTERM, SIGHUP), coordinator_(coordinator) {
    wait();
  }
  [[nodiscard]] std::optional<int> first() const { return first_; }

 private:
  void wait() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      const bool again = first_.has_value();
      if (!again) first_ = number;
      coordinator_.stop(std::string("SIG") + sigabbrev_np(number), again);
      wait();
    });
  }

  asio::signal_set signals_;
  Coordinator& coordinator_;
  std::optional<int> first_;
};

/// The signpost for pfcctl, as long as the coordinator runs.
class Signpost {
 public:
  Signpost(std::filesystem::path folder, const CoordinatorFile& file) : folder_(std::move(folder)) {
    write_coordinator_file(folder_, file);
  }
  ~Signpost() { remove_coordinator_file(folder_, getpid()); }
  Signpost(const Signpost&) = delete;
  Signpost& operator=(const Signpost&) = delete;

 private:
  const std::filesystem::path folder_;
};

int exit_code(const Verdict& verdict, std::optional<int> signal) {
  switch (verdict.kind) {
    case Verdict::Kind::kCompleted:
      return 0;
    case Verdict::Kind::kStopped:
      return kSignalBase + signal.value_or(SIGTERM);
    case Verdict::Kind::kFailed:
      break;
  }
  if (verdict.at_start) return kStartFailed;
  return verdict.worker_exit_code == kBadInput ? kBadInput : kJobFailed;
}

int run(const Options& options) {
  const std::vector<HostSpec> hosts = parse_hosts(options.hosts);
  const nlohmann::json job = read_job_file(options.config, options.overrides);
  // A bad job is refused here, before anything has started.
  const DeviceChoice device = parse_job(job, options.config.string()).device;

  const auto remote =
      std::find_if(hosts.begin(), hosts.end(), [](const HostSpec& host) { return !host.local; });
  const bool all_local = remote == hosts.end();
  const std::string bind = all_local ? "127.0.0.1" : "0.0.0.0";
  const std::string reachable = all_local ? bind : address_towards(remote->name);

  asio::io_context loop(1);
  Terminal terminal(std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
  std::optional<Verdict> verdict;
  CoordinatorOptions settings{.hosts = hosts, .job_json = job.dump(), .rendezvous = {}};
  settings.rendezvous.limits.start = seconds(options.start_timeout);
  settings.rendezvous.device = device;
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
  const Signpost signpost(options.state_dir, {.address = address,
                                              .http_address = http_address,
                                              .pid = getpid(),
                                              .job = options.config.string()});
  terminal.note("coordinator listening on " + address + ", http://" + http_address);
  if (!all_local)
    terminal.note("all interfaces are open, without encryption: trusted networks only");
  StopSignals signals(loop, coordinator);
  std::optional<LocalAgent> agent;
  for (const HostSpec& host : hosts) {
    if (!host.local) {
      terminal.note("host " + host.name + ": " + agent_command(address, host.name));
      continue;
    }
    agent.emplace(loop, "127.0.0.1:" + std::to_string(service.port()), host.name,
                  [&](const ProcessExit& exit) { coordinator.local_agent_ended(exit); });
  }
  coordinator.start(address);
  loop.run();
  service.shut_down();
  agent.reset();
  std::cerr << "pfc: " << verdict->message << std::endl;
  return exit_code(*verdict, signals.first());
}

int main_or_throw(int argc, char** argv) {
  CLI::App app("Starts a training job on its hosts and sees it through to its end.",
               "pfc-coordinator");
  Options options;
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw InputError(std::string(error.what()) + "; pfc-coordinator --help tells more");
  }
  return run(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that leaves does not end the job
  // gRPC's own messages are for its authors; errors come as our one line.
  setenv("GRPC_VERBOSITY", "NONE", 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    return pfc::main_or_throw(argc, argv);
  } catch (const pfc::InputError& error) {
    std::cerr << "pfc: " << error.what() << std::endl;
    return pfc::kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "pfc: internal error: " << error.what() << std::endl;
    return pfc::kJobFailed;
  }
}
