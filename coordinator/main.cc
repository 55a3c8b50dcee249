// pfc-coordinator: runs training jobs on its hosts: one, with which it ends, or as a service one
// after another.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/command_line.h"
#include "common/config/config.h"
#include "common/coordinator_file.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/machine/descriptors.h"
#include "common/machine/event_loop.h"
#include "common/machine/exit_deadline.h"
#include "common/machine/limits.h"
#include "common/machine/stop_signals.h"
#include "common/network_address.h"
#include "common/random_id.h"
#include "coordinator/access/gate.h"
#include "coordinator/access/join_file.h"
#include "coordinator/allocation/allocation.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/takeover.h"
#include "coordinator/net/beacon_sender.h"
#include "coordinator/net/listener.h"
#include "coordinator/processes/local_agent.h"
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
// Open files: its own, some for calls of pfcctl, and one connection of each agent and worker.
constexpr std::size_t kOwnFiles = 20;

struct Options {
  std::string hosts = "localhost";
  std::filesystem::path hosts_file;
  std::optional<Launcher> hosts_from;
  std::filesystem::path join_file;
  bool beacon = false;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  int port = 7450;
  int http_port = 7451;
  double start_timeout = 60;
  double collective_timeout = 300;
  double stop_timeout = 60;
  int max_restarts = 0;
  double token_lifetime = 3'600;
  std::optional<double> coordinator_grace;
  std::string take_over = "auto";
  std::string address;
  std::string network;
  std::filesystem::path state_dir = default_state_folder();

  [[nodiscard]] bool is_service() const { return config.empty(); }
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
  app.add_option("--hosts-file", options.hosts_file,
                 "A file with one host a line instead: NAME, NAME:SLOTS or NAME slots=SLOTS")
      ->excludes("--hosts");
  app.add_option(
         "--hosts-from", options.hosts_from,
         "slurm, mpi or kubernetes: the hosts of this allocation, read from the environment, "
         "or those of --hosts-file. srun, mpirun or Kubernetes must start their agents, "
         "also the one of this host")
      ->transform(choice_of({"slurm", "mpi", "kubernetes"}))  // in the order of Launcher
      ->type_name("TEXT")
      ->excludes("--hosts");
  app.add_option("--join-file", options.join_file,
                 "Writes what agents join with into this file, which only this user can read, as "
                 "long as the coordinator runs: for scripts that start agents with pfc-agent "
                 "--join-file");
  app.add_flag("--beacon", options.beacon,
               "Tells agents on this machine's networks where it is, every second by UDP "
               "multicast: pfc-agent --discover finds it with no more than a token");
  auto* const config =
      app.add_option("--config", options.config,
                     "The job file (JSON): runs this job and ends with it. Without it, a service "
                     "that runs one job after another, as pfcctl submit brings them")
          ->check(CLI::Validator(
              [](const std::string& path) { return path.empty() ? "expected a file" : ""; }, ""));
  app.add_option("--set", options.overrides,
                 "key=value: changes a key of the job file, for example lr=0.02 or "
                 "lr_schedule.power=2; may be given several times")
      ->allow_extra_args(false)
      ->needs(config);
  app.add_option("--port", options.port, "Port for agents and workers; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--http-port", options.http_port,
                 "Port of the status page and of /metrics; 0: any free one")
      ->check(any_port)
      ->capture_default_str();
  app.add_option("--start-timeout", options.start_timeout,
                 "Time for hosts to register, and for workers to join and connect: seconds, or "
                 "90s, 2min. The jobs of a service wait for their hosts without a limit")
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
  app.add_option("--max-restarts", options.max_restarts,
                 "How often the job goes on from its newest checkpoint after a worker, a host or a "
                 "connection has failed. Workers that have not failed keep their processes")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--network", options.network,
                 "The network over which workers of several hosts talk to each other: 10.0.0.0/8, "
                 "an address, or an interface such as eth0. Without it the fastest that reaches "
                 "all hosts");
  app.add_option("--token-lifetime", options.token_lifetime,
                 "How long the token in the printed join command can be exchanged: seconds, or "
                 "90min, 2h")
      ->transform(duration())
      ->capture_default_str();
  app.add_option("--address", options.address,
                 "The name or address by which agents on other machines reach this coordinator. A "
                 "name that is looked up again and again, such as that of a Kubernetes service, "
                 "lets them follow it to another machine. By default this machine's address");
  app.add_option("--coordinator-grace", options.coordinator_grace,
                 "How long agents and workers train on when this coordinator has gone without a "
                 "word. The same command, started again until then with the same --state-dir, goes "
                 "on with them. By default 10min; 30 s for a job whose hosts are all this machine")
      ->transform(duration())
      ->envname("PFC_COORDINATOR_GRACE");
  app.add_option("--take-over", options.take_over,
                 "auto: goes on with the job or service of a coordinator that was killed and was "
                 "the same command; never: begins anew; or the beginning of its id")
      ->capture_default_str();
  app.add_option(
         "--state-dir", options.state_dir,
         "Folder in which pfcctl finds the addresses of this user's coordinators, and where "
         "keys, tokens and the journal are kept")
      ->capture_default_str();
  app.footer(
      "A first SIGINT (Ctrl-C), SIGTERM or SIGHUP lets the workers write a checkpoint and end; a "
      "second one leaves them 5 s, then they are killed. A service ends likewise with the job "
      "that\n"
      "runs, and jobs that wait are lost (docs/service.md).\n"
      "Exit codes: 0 completed; 1 the job failed, or workers had to be killed; 2 bad input;\n"
      "3 a host, worker or GPU was missing at the start; 130, 143, 129: ended after a\n"
      "checkpoint by SIGINT, by SIGTERM or pfcctl stop, by SIGHUP; 5: ended after a checkpoint "
      "because a\n"
      "host leaves (docs/exit-codes.md).");
}

int exit_code(const Verdict& verdict, std::optional<int> signal) {
  switch (verdict.kind) {
    case Verdict::Kind::kCompleted:
      return kExitSuccess;
    case Verdict::Kind::kStopped:  // without a signal: by pfcctl stop
      if (verdict.host_left && !signal) return kExitHostLeft;
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

/// The hosts of the scheduler, of the file or of the list that was given, in this order.
std::vector<HostSpec> hosts_of(const Options& options) {
  if (options.hosts_from && options.join_file.empty()) {
    throw InputError(
        "--hosts-from needs --join-file FILE, in a folder that all hosts share: agents read "
        "there what they join with (pfc-agent --join-file FILE --once)");
  }
  std::vector<HostSpec> hosts = !options.hosts_file.empty() ? read_hosts_file(options.hosts_file)
                                : options.hosts_from
                                    ? allocated_hosts(*options.hosts_from, own_variable)
                                    : parse_hosts(options.hosts);
  look_up_hosts(hosts);
  return hosts;
}

/// What a person must do on the hosts of which this machine is none. `coordinator`: a join string.
void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts,
                      const std::string& coordinator, const std::string& launch_advice) {
  if (!launch_advice.empty()) return terminal.note(launch_advice);
  for (const HostSpec& host : hosts) {
    if (host.local) continue;
    if (!host.answered) {
      terminal.note(
          "host " + host.name + ": no name server has told its address in " +
              std::to_string(kLookUpLimit.count()) +
              " s; going on without it. Look at /etc/resolv.conf, or give an IPv4 address",
          Severity::kWarning);
    }
    terminal.note("host " + host.name + ": " +
                      agent_advice(coordinator, {.name = host.name, .resolves = host.resolves}),
                  host.resolves ? Severity::kNote : Severity::kWarning);
  }
}

/// Keys and tokens; none where all hosts are this machine.
std::unique_ptr<Gate> make_gate(const Options& options, bool all_local) {
  if (all_local) return nullptr;
  // Rounded up: less than a second would be none.
  const auto lifetime = std::chrono::ceil<std::chrono::seconds>(
      std::chrono::duration<double>(options.token_lifetime));
  return std::make_unique<Gate>(
      GateOptions{.state_dir = options.state_dir, .token_lifetime = lifetime});
}

/// None where it is not asked for, or agents need none. The token names the hosts: a scheduler's
/// may come back without the files of their last agent, and then get another certificate.
std::unique_ptr<JoinFile> write_join_file(const Options& options, Gate* gate,
                                          const std::vector<HostSpec>& hosts,
                                          const std::string& address) {
  if (gate == nullptr || options.join_file.empty()) return nullptr;
  std::vector<std::string> names;
  for (const HostSpec& host : hosts) names.push_back(host.name);
  return std::make_unique<JoinFile>(options.join_file, gate->make_join_string(address, names));
}

/// Pages over TLS, for those who have a token for reading.
HttpSecurity security_of(Gate* gate) {
  if (gate == nullptr) return {};
  return {
      .server = gate->server(),
      .admits = [gate](std::string_view authorization,
                       const std::string& peer) { return gate->admit_page(authorization, peer); },
      .failed =
          [gate](const std::string& peer, const std::string& why) {
            static_cast<void>(gate->refuse({.peer = peer}, "connect", "bad_handshake", why));
          }};
}

/// With the metrics of refusals, where there is a gate.
HttpReply serve_page(Coordinator& coordinator, const Gate* gate, std::string_view path) {
  HttpReply reply = serve_page(coordinator, path);
  if (gate != nullptr && path == "/metrics") reply.body += gate->metrics_text();
  return reply;
}

/// A person who kills the coordinator of a job on one machine expects that nothing is left soon.
std::chrono::milliseconds grace_of(const Options& options, bool all_local) {
  constexpr std::chrono::seconds kOfOneMachine{30};
  constexpr std::chrono::minutes kOfACluster{10};
  if (options.coordinator_grace) return seconds(*options.coordinator_grace);
  if (all_local && !options.is_service()) return kOfOneMachine;
  return kOfACluster;
}

/// What a coordinator that was killed has left for this one: its state, and its own agent where
/// that lives.
class Inheritance {
 public:
  Inheritance(const Options& options, const proto::JournalIdentity& identity)
      : folder_(options.state_dir),
        identity_(identity),
        takeover_(find_takeover(options.state_dir, identity, options.take_over)) {
    if (!takeover_.found) return;
    identity_.set_id(takeover_.found->contents.identity.id());
    own_.ParseFromString(takeover_.found->contents.values["coordinator"]);
    agent_ = ForeignProcess::find(static_cast<pid_t>(own_.local_agent_pid()), kAgentIdVariable,
                                  own_.local_agent_id());
  }

  [[nodiscard]] bool exists() const { return takeover_.found.has_value(); }
  [[nodiscard]] const std::string& id() const { return identity_.id(); }
  [[nodiscard]] const proto::SavedCoordinator& own() const { return own_; }
  /// Agents and workers know the earlier one's.
  [[nodiscard]] int port(int asked) const { return asked == 0 ? own_.port() : asked; }
  [[nodiscard]] int http_port(int asked) const { return asked == 0 ? own_.http_port() : asked; }
  [[nodiscard]] bool has_agent() const { return agent_.has_value(); }
  std::optional<ForeignProcess> take_agent() { return std::exchange(agent_, std::nullopt); }

  void tell(Terminal& terminal) const {
    for (const std::string& note : takeover_.notes) terminal.note(note, Severity::kWarning);
    if (!exists()) return;
    terminal.note("taking over " + identity_.id() + " from a coordinator that was killed" +
                      (takeover_.found->contents.torn_bytes > 0
                           ? "; the last record of its journal was not complete, and is left out"
                           : ""),
                  Severity::kWarning);
  }
  /// The state goes into the coordinator, and into a journal of this one.
  std::unique_ptr<Journal> open(Coordinator& coordinator, Terminal& terminal,
                                boost::asio::io_context& loop) {
    JournalContents contents{.identity = identity_, .values = {}};
    LockedFile lock;
    if (takeover_.found) {
      contents.values = std::move(takeover_.found->contents.values);
      lock = std::move(takeover_.found->lock);
      coordinator.take_over(contents.values);
    }
    const auto tell = [&loop, &terminal](const std::string& line) {
      boost::asio::post(loop, [&terminal, line] { terminal.note(line, Severity::kWarning); });
    };
    return std::make_unique<Journal>(
        Journal::Options{.file = journal_file(folder_, identity_.id()), .tell = tell},
        std::move(contents), std::move(lock));
  }

 private:
  const std::filesystem::path folder_;
  proto::JournalIdentity identity_;
  Takeover takeover_;
  proto::SavedCoordinator own_;
  std::optional<ForeignProcess> agent_;
};

CoordinatorOptions settings_of(const Options& options, const std::vector<HostSpec>& hosts) {
  CoordinatorOptions settings{.hosts = hosts,
                              .is_service = options.is_service(),
                              .local_agent_id = options.hosts_from ? "" : random_id(),
                              .rendezvous = {},
                              .network = NetworkWish(options.network)};
  settings.rendezvous.limits.start = seconds(options.start_timeout);
  settings.rendezvous.max_restarts = options.max_restarts;
  settings.rendezvous.stop = seconds(options.stop_timeout);
  settings.collective_timeout = seconds(options.collective_timeout);
  return settings;
}

/// The job of --config; none for a service.
std::optional<Job> job_of(const Options& options, const std::vector<HostSpec>& hosts) {
  if (options.is_service()) return {};
  return make_job(read_job_file(options.config, options.overrides),
                  {options.config.string(), options.overrides}, workers_of(hosts));
}

/// One that does not say its slots has one worker at least.
ProcessNeeds needs_of(const std::vector<HostSpec>& hosts) {
  std::size_t files = kOwnFiles + hosts.size();
  for (const HostSpec& host : hosts) files += static_cast<std::size_t>(std::max(host.slots, 1));
  return {.files = files};
}

int run_jobs(const Options& options) {
  const std::vector<HostSpec> hosts = hosts_of(options);
  expect_limits(needs_of(hosts));
  // A bad job is refused here, before anything has started.
  std::optional<Job> job = job_of(options, hosts);

  // An agent that a scheduler starts does not know that it is on the coordinator's machine.
  const bool all_local = !options.hosts_from && std::ranges::all_of(hosts, &HostSpec::local);
  const std::string bind = all_local ? "127.0.0.1" : any_address();
  const std::string reachable = all_local                 ? bind
                                : options.address.empty() ? address_towards(hosts)
                                                          : options.address;
  const std::chrono::milliseconds grace = grace_of(options, all_local);
  proto::JournalIdentity identity =
      identity_of(hosts, options.port, job ? &*job : nullptr, options.config, grace);
  if (!job) identity.set_id(random_id());
  Inheritance inheritance(options, identity);

  BackgroundOutput output(STDOUT_FILENO, STDERR_FILENO);
  asio::io_context loop(1);
  Terminal terminal(output, isatty(STDERR_FILENO) == 1, stderr_has_colour());
  std::optional<Verdict> verdict;
  CoordinatorOptions settings = settings_of(options, hosts);
  settings.coordinator_grace = grace;
  if (inheritance.has_agent()) settings.local_agent_id = inheritance.own().local_agent_id();
  inheritance.tell(terminal);
  std::unique_ptr<Journal> journal;  // the coordinator borrows it
  Coordinator coordinator(loop, settings, terminal, [&](const Verdict& end) {
    verdict = end;
    loop.stop();
  });
  const std::unique_ptr<Gate> gate = make_gate(options, all_local);
  Service service(loop, coordinator,
                  {.address = bind,
                   .port = inheritance.port(options.port),
                   .gate = gate.get(),
                   .reachable = reachable});
  const HttpServer http(
      loop, bind, inheritance.http_port(options.http_port),
      [&](std::string_view path) { return serve_page(coordinator, gate.get(), path); },
      security_of(gate.get()));
  const std::string address = join_host_port(reachable, service.port());
  const std::string http_address = join_host_port(reachable, http.port());
  const std::string& id = inheritance.id();
  const PublishedCoordinator published(options.state_dir, {.job_id = id,
                                                           .address = address,
                                                           .http_address = http_address,
                                                           .pid = getpid(),
                                                           .tls = gate != nullptr,
                                                           .job = options.config.string()});
  terminal.note((job ? "job " : "service ") + id + ", listening on " + address +
                (gate == nullptr ? " and http://" : " and https://") + http_address +
                (job ? "" : "; it waits for jobs: pfcctl submit JOB.json"));
  if (job) {
    for (const std::string& warning : job->warnings) {
      terminal.note(job->file + ": " + warning, Severity::kWarning);
    }
  }
  const auto here = std::ranges::find(hosts, true, &HostSpec::local);
  const bool has_own_agent = here != hosts.end() && !options.hosts_from;
  std::string credential;
  if (gate != nullptr && has_own_agent) {
    if (inheritance.has_agent()) {
      gate->accept_local_agent(here->name, inheritance.own().local_agent_serial());
    } else {
      credential = to_text(gate->credential_for_local_agent(here->name));
    }
  }
  journal = inheritance.open(coordinator, terminal, loop);
  // The earlier coordinator may have been killed before it had written its job.
  if (job && coordinator.queue().jobs().empty()) {
    job->id = id;
    coordinator.add(std::move(*job));
  }
  proto::SavedCoordinator own;
  own.set_port(service.port());
  own.set_http_port(http.port());
  own.set_local_agent_id(settings.local_agent_id);
  if (gate != nullptr && has_own_agent) {
    own.set_local_agent_serial(gate->serial_of_local_agent(here->name));
  }
  coordinator.keep(*journal, own);
  // The first signal ends the job after a checkpoint, the second one in a few seconds.
  const StopSignals signals(loop, [&](int number, bool again) {
    coordinator.stop(std::string("SIG") + sigabbrev_np(number), again);
  });
  const std::string advice =
      options.hosts_from ? launch_advice(*options.hosts_from, options.join_file) : "";
  const std::unique_ptr<JoinFile> join_file = write_join_file(options, gate.get(), hosts, address);
  if (gate != nullptr) {
    tell_other_hosts(terminal, hosts, gate->make_join_string(address), advice);
  }
  // Whoever may see the status sees this too, so it has no token.
  coordinator.start(gate == nullptr ? address : "TOKEN@" + address + "#" + gate->fingerprint(),
                    advice);
  std::optional<BeaconSender> beacon;
  if (options.beacon && gate != nullptr) {
    beacon.emplace(
        loop, BeaconSender::Options{.port = service.port(),
                                    .fingerprint = gate->fingerprint(),
                                    .token_hashes = [&gate] { return gate->join_token_hashes(); }});
  }
  std::optional<LocalAgent> agent;
  if (has_own_agent) {
    try {
      const LocalAgentOptions starting{.coordinator = "127.0.0.1:" + std::to_string(service.port()),
                                       .host = here->name,
                                       .id = settings.local_agent_id,
                                       .credential = credential,
                                       .starts_again = options.is_service(),
                                       .coordinator_grace = grace};
      agent.emplace(loop, starting,
                    LocalAgent::Handler{
                        .started = [&](pid_t pid) { coordinator.local_agent_runs(pid); },
                        .ended = [&](const auto& exit) { coordinator.local_agent_ended(exit); }},
                    inheritance.take_agent());
    } catch (const std::exception& error) {
      coordinator.local_agent_not_started(text_of(error));
    }
  }
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
  CLI::App app(
      "Runs a training job on its hosts, and ends when the job has ended; or, as a service, one "
      "job after another.",
      "pfc-coordinator");
  Options options;
  declare(app, options);
  if (const auto done = parse_command_line(app, argc, argv)) return *done;
  return run_jobs(options);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  pfc::raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // the job goes on when its output is no longer read
  return pfc::run_program("pfc-coordinator", [&] { return pfc::run(argc, argv); });
}
