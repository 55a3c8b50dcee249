#include "coordinator/program/coordinator_program.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "common/process/event_loop.h"
#include "common/process/exit_deadline.h"
#include "coordinator/allocation/allocation.h"
#include "coordinator/program/announcements.h"
#include "coordinator/rules/job_progress.h"
#include "coordinator/takeover/rivals.h"
#include "coordinator/web/targets.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

namespace asio = boost::asio;

// Time for gRPC and the agent to end, and for the output to be read.
constexpr std::chrono::seconds kExitLimit{20};
constexpr std::chrono::seconds kReaderLimit{2};
constexpr std::chrono::milliseconds kLeastRenewal{500};  // pause between renewals of the join file
constexpr std::chrono::seconds kFilesPause{1};

int exit_code(const Verdict& verdict, std::optional<int> signal) {
  switch (verdict.kind) {
    case Verdict::Kind::kCompleted:
      return kExitSuccess;
    case Verdict::Kind::kStopped:  // by a signal, or by pfcctl stop
      if (verdict.host_left && !signal) return kExitHostLeft;
      return exit_code_of_signal(signal.value_or(SIGTERM));
    case Verdict::Kind::kFailed:
      break;
  }
  if (verdict.at_start) return kExitNotStarted;
  return verdict.worker_exit_code == kExitBadInput ? kExitBadInput : kExitFailed;
}

GateOptions gate_options(const Options& options) {
  // Rounded up, because 0 s would mean no expiry.
  const auto lifetime = std::chrono::ceil<std::chrono::seconds>(
      std::chrono::duration<double>(options.token_lifetime));
  return {.state_dir = options.state_dir, .token_lifetime = lifetime};
}

/// Serves pages to holders of a token: over TLS, or in plaintext on the loopback interface if all
/// hosts are this machine.
HttpSecurity security_of(Gate& gate, bool all_local) {
  return {
      .server = all_local ? Credential{} : gate.server(),
      .admits = [&gate](std::string_view authorization,
                        const std::string& peer) { return gate.admit_page(authorization, peer); },
      .loopback_only = all_local,
      .refused =
          [&gate](const Caller& caller, const std::string& what, const std::string& code,
                  const std::string& why) {
            static_cast<void>(gate.refuse(caller, what, code, why));
          }};
}

/// Listens on another port if the previous coordinator's port is in use now and any port is
/// allowed: no agent or worker uses this port.
std::unique_ptr<HttpServer> serve_http(asio::io_context& loop, const std::string& bind, int port,
                                       bool may_be_any, const HttpSite& site,
                                       const HttpSecurity& security) {
  try {
    return std::make_unique<HttpServer>(loop, bind, port, site, security);
  } catch (const std::exception&) {
    if (!may_be_any || port == 0) throw;
    return std::make_unique<HttpServer>(loop, bind, 0, site, security);
  }
}

BeaconSender::Options beacon_of(Gate& gate, int port) {
  return {.port = port, .fingerprint = gate.fingerprint(), .token_hashes = [&gate] {
            return gate.join_token_hashes();
          }};
}

}  // namespace

CoordinatorProgram::Console::Console(const std::vector<std::string>& notes)
    : output(STDOUT_FILENO, STDERR_FILENO),
      terminal(output, isatty(STDERR_FILENO) == 1, stderr_has_colour()) {
  for (const std::string& note : notes) terminal.note(note, Severity::kWarning);
}

CoordinatorProgram::CoordinatorProgram(const Options& options)
    : options_(options),
      setup_(set_up(options)),
      inheritance_(options.state_dir, setup_.identity, options.take_over),
      local_agent_id_(inheritance_.has_agent() ? inheritance_.agent_id()
                                               : setup_.coordinator.local_agent_id),
      console_(inheritance_.notes()),
      last_reading_(milliseconds_of(options.metrics_linger)),
      linger_(loop_),
      coordinator_(loop_, settings(), console_.terminal,
                   [this](const Verdict& verdict) { finished(verdict); }),
      gate_(gate_options(options)),
      service_(loop_, coordinator_,
               {.address = setup_.bind,
                .port = inheritance_.port(options.port),
                .gate = &gate_,
                .reachable = setup_.reachable}),
      pages_(loop_, coordinator_, &gate_,
             [this](const HttpRequest& request) { return serve(request); }),
      http_(serve_http(loop_, setup_.bind, inheritance_.http_port(options.http_port),
                       options.http_port == 0, pages_.site(),
                       security_of(gate_, setup_.all_local))),
      published_(options.state_dir, about()) {}

int CoordinatorProgram::run() {
  tell_beginning(console_.terminal, about(), setup_.job, page_access());
  // Ends other jobs only now, when nothing else in this start can fail.
  if (setup_.job && !options_.check) {
    end_rivals(inheritance_.take_unused(), *setup_.job,
               [this](const std::string& line) { warn(line); });
  }
  begin_journal();
  // The first signal ends the job after a checkpoint, the second one within seconds.
  signals_.emplace(loop_, [this](int number, bool again) {
    if (verdict_) return loop_.stop();
    coordinator_.stop(std::string("SIG") + sigabbrev_np(number), again);
  });
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep_files(stop); });
  names_ = std::jthread([this](const std::stop_token& stop) { look_up_again(stop); });
  start();
  start_local_agent();
  run_event_loop(loop_, [this](const std::string& what) {
    warn("internal error; the program continues: " + what);
  });
  return end();
}

CoordinatorOptions CoordinatorProgram::settings() const {
  CoordinatorOptions settings = setup_.coordinator;
  settings.local_agent_id = local_agent_id_;
  return settings;
}

/// Returns the text after the page's address: the token on a terminal, otherwise the token's file,
/// because others may read the output.
std::string CoordinatorProgram::page_access() const {
  if (!setup_.all_local) return {};
  if (isatty(STDERR_FILENO) == 1) return "/?token=" + gate_.page_token();
  return " (open it with /?token=TOKEN, which is in " +
         (options_.state_dir / "security" / "admin.token").string() + ")";
}

CoordinatorFile CoordinatorProgram::about() const {
  return {.job_id = inheritance_.id(),
          .address = join_host_port(setup_.reachable, service_.port()),
          .http_address = join_host_port(setup_.reachable, http_->port()),
          .pid = getpid(),
          .tls = !setup_.all_local,
          .job = options_.config.string()};
}

/// Adds the gate's metrics to /metrics, and serves pages that need data of this class.
HttpReply CoordinatorProgram::serve(const HttpRequest& request) {
  const std::string& path = request.path;
  if (path == "/targets") {
    return {.content_type = "application/json", .body = coordinator_targets(about().http_address)};
  }
  if (path == "/targets/hosts") {
    return {.content_type = "application/json", .body = host_targets(coordinator_.status())};
  }
  HttpReply reply = serve_page(coordinator_, path);
  if (path == "/metrics") {
    if (request.scrape) last_reading_.read(Clock::now());
    reply.body += gate_.metrics_text();
  }
  return reply;
}

void CoordinatorProgram::finished(const Verdict& verdict) {
  verdict_ = verdict;
  pages_.tell_end();
  tell_end(console_.terminal, verdict, coordinator_.staying_agents());
  const std::chrono::milliseconds wait = last_reading_.wait(Clock::now());
  if (wait.count() == 0) return loop_.stop();
  console_.terminal.note("waiting until /metrics is read once more, at most " +
                         duration_text(std::chrono::duration<double>(wait).count()) +
                         " (Ctrl-C: end now)");
  linger_.expires_after(wait);
  linger_.async_wait([this](boost::system::error_code) { loop_.stop(); });
}

void CoordinatorProgram::warn(const std::string& line) {
  console_.terminal.note(line, Severity::kWarning);
}

/// Opens the journal, with the inherited values, and adds the job of --config unless it was taken
/// over.
void CoordinatorProgram::begin_journal() {
  if (options_.check) {  // a check has no journal
    setup_.job->id = inheritance_.id();
    coordinator_.jobs().add(std::move(*setup_.job));
    return;
  }
  if (inheritance_.has_agent()) {
    gate_.accept_local_agent(setup_.own_host, inheritance_.agent_serial());
  }
  const proto::SavedCoordinator own = own_record();
  if (inheritance_.exists()) coordinator_.takeover().begin(inheritance_.values());
  journal_ = inheritance_.open(
      [this](const std::string& line) { asio::post(loop_, [this, line] { warn(line); }); });
  // The earlier coordinator may have been killed before it saved its job.
  if (setup_.job && coordinator_.jobs().list().jobs().empty()) {
    setup_.job->id = inheritance_.id();
    coordinator_.jobs().add(std::move(*setup_.job));
  }
  coordinator_.takeover().keep(*journal_, own);
}

proto::SavedCoordinator CoordinatorProgram::own_record() const {
  proto::SavedCoordinator own;
  own.set_port(service_.port());
  own.set_http_port(http_->port());
  own.set_local_agent_id(local_agent_id_);
  if (inheritance_.has_agent()) own.set_local_agent_serial(inheritance_.agent_serial());
  return own;
}

/// The token names the hosts: only such a token can replace the certificate of a host that has
/// lost its agent's files, which happens with schedulers.
std::unique_ptr<JoinFile> CoordinatorProgram::write_join_file() {
  if (setup_.all_local || options_.join_file.empty()) return nullptr;
  std::vector<std::string> names;
  for (const HostSpec& host : setup_.hosts) names.push_back(host.name);
  return std::make_unique<JoinFile>(
      loop_, JoinFile::Options{.path = options_.join_file,
                               .renewed_after = std::max(
                                   milliseconds_of(options_.token_lifetime) / 2, kLeastRenewal),
                               .make = [this, address = about().address,
                                        names] { return gate_.make_join_string(address, names); },
                               .warn = [this](const std::string& line) { warn(line); }});
}

void CoordinatorProgram::start() {
  const std::string address = about().address;
  const std::string advice =
      options_.hosts_from ? launch_advice(*options_.hosts_from, options_.join_file) : "";
  join_file_ = write_join_file();
  tell_other_hosts(console_.terminal, setup_.hosts, gate_, address, advice);
  // Readers of the status see this, so it contains no token.
  coordinator_.start("TOKEN@" + address + "#" + gate_.fingerprint(), advice);
  if (options_.beacon && !setup_.all_local) {
    beacon_.emplace(loop_, beacon_of(gate_, service_.port()));
  }
}

void CoordinatorProgram::start_local_agent() {
  const std::string host = setup_.own_host;
  auto living = inheritance_.take_agent();
  if (host.empty()) return;
  LocalAgentOptions starting{.coordinator = "127.0.0.1:" + std::to_string(service_.port()),
                             .host = host,
                             .id = local_agent_id_,
                             .allow_chaos = options_.allow_chaos,
                             .starts_again = options_.is_service(),
                             .coordinator_grace = setup_.coordinator.coordinator_grace};
  starting.credential = [this, host] { return to_text(gate_.credential_for_local_agent(host)); };
  const auto started = [this, host](pid_t pid) {
    coordinator_.takeover().local_agent_runs(pid, gate_.serial_of_local_agent(host));
  };
  const auto ended = [this](const auto& exit) {
    return coordinator_.agents().local_agent_ended(exit);
  };
  try {
    agent_.emplace(loop_, std::move(starting),
                   LocalAgent::Handler{.started = started, .ended = ended}, std::move(living));
  } catch (const std::exception& error) {
    coordinator_.agents().local_agent_not_started(text_of(error));
  }
}

void CoordinatorProgram::print_check() {
  const proto::CheckReport* const report = coordinator_.checks().last();
  if (report == nullptr) return;
  console_.output.write_result(options_.json ? json_text(check_json(*report))
                                             : check_text(*report));
}

void CoordinatorProgram::keep_files(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  for (bool told = false;
       !stopped.wait_for(lock, stop, kFilesPause, [&] { return stop.stop_requested(); });) {
    try {
      published_.renew();
      gate_.refresh_files();
      told = false;
    } catch (const std::exception& error) {
      if (std::exchange(told, true)) continue;
      asio::post(loop_, [this, what = text_of(error)] {
        warn("the state folder: " + what +
             "; retrying every second; until it works, pfcctl may not find this coordinator");
      });
    }
  }
}

void CoordinatorProgram::look_up_again(const std::stop_token& stop) {
  RepeatedLookup lookup{.names = {}, .limit = setup_.coordinator.rendezvous.limits.start};
  for (const HostSpec& host : setup_.hosts) {
    if (!host.resolves || !host.answered) lookup.names.push_back(host.name);
  }
  lookup.run(stop, [this](const auto& names, const FoundAddresses& found) {
    asio::post(loop_, [this, names, found] { coordinator_.hosts_looked_up(names, found); });
  });
}

int CoordinatorProgram::end() {
  const int code = exit_code(*verdict_, signals_->first());
  if (options_.check) {
    signals_->restore();  // the event loop does not run while a slow reader reads the report
    print_check();
  }
  // The job has ended, so nothing from here on may block the program.
  end_process_after(kExitLimit, code);
  const bool closed = service_.shut_down();
  agent_.reset();
  if (!closed) {
    console_.output.finish(kReaderLimit);
    _exit(code);
  }
  return code;
}

}  // namespace pfc
