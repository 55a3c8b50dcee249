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
#include "coordinator/allocation/allocation.h"
#include "coordinator/coordinator.h"
#include "coordinator/launch/inheritance.h"
#include "coordinator/launch/join_file.h"
#include "coordinator/launch/local_agent.h"
#include "coordinator/net/beacon_sender.h"
#include "coordinator/net/listener.h"
#include "coordinator/options.h"
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
constexpr std::chrono::milliseconds kLeastRenewal{500};  // of the join file

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(value * 1000)};
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

/// What a person must do on the hosts of which this machine is none.
void tell_other_hosts(Terminal& terminal, const std::vector<HostSpec>& hosts, Gate& gate,
                      const std::string& address, const std::string& launch_advice) {
  if (!launch_advice.empty()) return terminal.note(launch_advice);
  if (std::ranges::all_of(hosts, &HostSpec::local)) return;
  const std::string join = gate.make_join_string(address);  // only where it is shown
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
                      agent_advice(join, {.name = host.name, .resolves = host.resolves}),
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
std::unique_ptr<JoinFile> write_join_file(asio::io_context& loop, const Options& options,
                                          Gate* gate, const std::vector<HostSpec>& hosts,
                                          const std::string& address, Terminal& terminal) {
  if (gate == nullptr || options.join_file.empty()) return nullptr;
  std::vector<std::string> names;
  for (const HostSpec& host : hosts) names.push_back(host.name);
  return std::make_unique<JoinFile>(
      loop, JoinFile::Options{
                .path = options.join_file,
                .renewed_after = std::max(seconds(options.token_lifetime) / 2, kLeastRenewal),
                .make = [gate, address, names] { return gate->make_join_string(address, names); },
                .warn = [&terminal](
                            const std::string& line) { terminal.note(line, Severity::kWarning); }});
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

/// Numbers that no job could have. Throws InputError.
void check_elastic(const ElasticOptions& options, const std::vector<HostSpec>& hosts) {
  const auto expect = [](bool ok, const std::string& what) {
    if (!ok) throw InputError(what);
  };
  const int least = options.min_workers, most = options.max_workers;
  expect(most == 0 || least <= most, "--min-workers " + std::to_string(least) +
                                         " is more than --max-workers " + std::to_string(most));
  const int slots = workers_of(hosts);
  if (slots == 0) return;  // known when all hosts are here
  const std::string there = " of the " + counted(slots, "slot") + " of all hosts";
  expect(options.spares < slots,
         "--spares " + std::to_string(options.spares) + " leaves no worker" + there);
  expect(least + options.spares <= slots, "--min-workers " + std::to_string(least) +
                                              " and --spares " + std::to_string(options.spares) +
                                              " are together more than" + there.substr(3));
}

/// A person who kills the coordinator of a job on one machine expects that nothing is left soon.
std::chrono::milliseconds grace_of(const Options& options, bool all_local) {
  constexpr std::chrono::seconds kOfOneMachine{30};
  constexpr std::chrono::minutes kOfACluster{10};
  if (options.coordinator_grace) return seconds(*options.coordinator_grace);
  if (all_local && !options.is_service()) return kOfOneMachine;
  return kOfACluster;
}

CoordinatorOptions settings_of(const Options& options, const std::vector<HostSpec>& hosts) {
  CoordinatorOptions settings{.hosts = hosts,
                              .is_service = options.is_service(),
                              .local_agent_id = options.hosts_from ? "" : random_id(),
                              .rendezvous = {},
                              .network = NetworkWish(options.network)};
  settings.rendezvous.limits.start = seconds(options.start_timeout);
  settings.rendezvous.limits.pace = {.floor = seconds(options.progress_floor),
                                     .factor = options.progress_factor,
                                     .unknown = seconds(options.collective_timeout)};
  const ElasticOptions& elastic = options.elastic;
  check_elastic(elastic, hosts);
  settings.rendezvous.elastic = {.min_workers = elastic.min_workers,
                                 .max_workers = elastic.max_workers,
                                 .spares = elastic.spares};
  settings.rendezvous.max_restarts = elastic.restarts();
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

BeaconSender::Options beacon_of(Gate& gate, int port) {
  return {.port = port, .fingerprint = gate.fingerprint(), .token_hashes = [&gate] {
            return gate.join_token_hashes();
          }};
}

/// This machine's name in --hosts, where the coordinator starts the agent itself; otherwise empty.
std::string own_host(const Options& options, const std::vector<HostSpec>& hosts) {
  const auto here = std::ranges::find(hosts, true, &HostSpec::local);
  return here == hosts.end() || options.hosts_from ? "" : here->name;
}

/// On another port than the coordinator before this one, where somebody has that one now: nobody
/// but people knows it.
std::unique_ptr<HttpServer> serve_http(asio::io_context& loop, const std::string& bind, int port,
                                       bool may_be_any, const HttpHandler& handler,
                                       const HttpSecurity& security) {
  try {
    return std::make_unique<HttpServer>(loop, bind, port, handler, security);
  } catch (const std::exception&) {
    if (!may_be_any || port == 0) throw;
    return std::make_unique<HttpServer>(loop, bind, 0, handler, security);
  }
}

void start_local_agent(std::optional<LocalAgent>& agent, asio::io_context& loop,
                       Coordinator& coordinator, Gate* gate, LocalAgentOptions starting,
                       std::optional<ForeignProcess> living) {
  const std::string host = starting.host;
  if (host.empty()) return;
  if (gate != nullptr) {
    starting.credential = [gate, host] { return to_text(gate->credential_for_local_agent(host)); };
  }
  const auto started = [&coordinator, gate, host](pid_t pid) {
    coordinator.local_agent_runs(pid, gate == nullptr ? "" : gate->serial_of_local_agent(host));
  };
  const auto ended = [&coordinator](const auto& exit) {
    return coordinator.local_agent_ended(exit);
  };
  try {
    agent.emplace(loop, std::move(starting),
                  LocalAgent::Handler{.started = started, .ended = ended}, std::move(living));
  } catch (const std::exception& error) {
    coordinator.local_agent_not_started(text_of(error));
  }
}

/// What a person reads first.
void tell_beginning(Terminal& terminal, const CoordinatorFile& file,
                    const std::optional<Job>& job) {
  terminal.note((job ? "job " : "service ") + file.job_id + ", listening on " + file.address +
                (file.tls ? " and https://" : " and http://") + file.http_address +
                (job ? "" : "; it waits for jobs: pfcctl submit JOB.json"));
  if (!job) return;
  for (const std::string& warning : job->warnings) {
    terminal.note(job->file + ": " + warning, Severity::kWarning);
  }
}

/// What the next coordinator needs, in a journal that begins with what the last one has saved; and
/// the job of --config, where that was not taken over.
std::unique_ptr<Journal> begin_journal(Inheritance& inheritance, Coordinator& coordinator,
                                       const proto::SavedCoordinator& own, std::optional<Job> job,
                                       asio::io_context& loop, Terminal& terminal) {
  if (inheritance.exists()) coordinator.take_over(inheritance.values());
  auto journal = inheritance.open([&loop, &terminal](const std::string& line) {
    asio::post(loop, [&terminal, line] { terminal.note(line, Severity::kWarning); });
  });
  // The earlier coordinator may have been killed before it had written its job.
  if (job && coordinator.queue().jobs().empty()) {
    job->id = inheritance.id();
    coordinator.add(std::move(*job));
  }
  coordinator.keep(*journal, own);
  return journal;
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
  CoordinatorOptions settings = settings_of(options, hosts);
  settings.coordinator_grace = grace_of(options, all_local);
  proto::JournalIdentity identity = identity_of(hosts, options.port, job ? &*job : nullptr,
                                                options.config, settings.coordinator_grace);
  if (!job) identity.set_id(random_id());
  Inheritance inheritance(options.state_dir, identity, options.take_over);
  if (inheritance.has_agent()) settings.local_agent_id = inheritance.agent_id();

  BackgroundOutput output(STDOUT_FILENO, STDERR_FILENO);
  asio::io_context loop(1);
  Terminal terminal(output, isatty(STDERR_FILENO) == 1, stderr_has_colour());
  for (const std::string& note : inheritance.notes()) terminal.note(note, Severity::kWarning);
  std::optional<Verdict> verdict;
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
  const auto http = serve_http(
      loop, bind, inheritance.http_port(options.http_port), options.http_port == 0,
      [&](std::string_view path) { return serve_page(coordinator, gate.get(), path); },
      security_of(gate.get()));
  const std::string address = join_host_port(reachable, service.port());
  const CoordinatorFile about{.job_id = inheritance.id(),
                              .address = address,
                              .http_address = join_host_port(reachable, http->port()),
                              .pid = getpid(),
                              .tls = gate != nullptr,
                              .job = options.config.string()};
  const PublishedCoordinator published(options.state_dir, about);
  tell_beginning(terminal, about, job);
  const std::string here = own_host(options, hosts);
  if (gate != nullptr && inheritance.has_agent()) {
    gate->accept_local_agent(here, inheritance.agent_serial());
  }
  proto::SavedCoordinator own;
  own.set_port(service.port());
  own.set_http_port(http->port());
  own.set_local_agent_id(settings.local_agent_id);
  if (inheritance.has_agent()) own.set_local_agent_serial(inheritance.agent_serial());
  journal = begin_journal(inheritance, coordinator, own, std::move(job), loop, terminal);
  // The first signal ends the job after a checkpoint, the second one in a few seconds.
  const StopSignals signals(loop, [&](int number, bool again) {
    coordinator.stop(std::string("SIG") + sigabbrev_np(number), again);
  });
  const std::string advice =
      options.hosts_from ? launch_advice(*options.hosts_from, options.join_file) : "";
  const std::unique_ptr<JoinFile> join_file =
      write_join_file(loop, options, gate.get(), hosts, address, terminal);
  if (gate != nullptr) {
    tell_other_hosts(terminal, hosts, *gate, address, advice);
  }
  // Whoever may see the status sees this too, so it has no token.
  coordinator.start(gate == nullptr ? address : "TOKEN@" + address + "#" + gate->fingerprint(),
                    advice);
  std::optional<BeaconSender> beacon;
  if (options.beacon && gate != nullptr) beacon.emplace(loop, beacon_of(*gate, service.port()));
  std::optional<LocalAgent> agent;
  start_local_agent(agent, loop, coordinator, gate.get(),
                    {.coordinator = "127.0.0.1:" + std::to_string(service.port()),
                     .host = here,
                     .id = settings.local_agent_id,
                     .allow_chaos = options.allow_chaos,
                     .starts_again = options.is_service(),
                     .coordinator_grace = settings.coordinator_grace},
                    inheritance.take_agent());
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
