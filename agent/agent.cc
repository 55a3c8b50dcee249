#include "agent/agent.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agent/describe/process_description.h"
#include "agent/network/addresses.h"
#include "common/error_text.h"
#include "common/log.h"
#include "common/machine/cores.h"
#include "common/random_id.h"
#include "common/version.h"
#include "proto/channel.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kLongestPause{10};  // for a coordinator that refuses the agent
constexpr std::int64_t kLongestLogPiece = 256 << 10;
constexpr std::chrono::milliseconds kStackTime{500};  // for a worker to write its stack

/// A duration as pfc-worker's options take it: "70", "2.5".
std::string in_seconds(std::int64_t milliseconds) {
  std::ostringstream text;
  text << static_cast<double>(milliseconds) / 1000;
  return text.str();
}

/// Whether another attempt would be refused as well.
bool is_final(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
}

/// The devices for the status page: "cpu (16 cores)", "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)".
std::vector<std::string> list_devices(const std::vector<Gpu>& gpus, BindMode bind) {
  std::vector<std::string> devices{"cpu (" + std::to_string(usable_cores()) + " cores" +
                                   (bind == BindMode::kCores ? ", bound to workers)" : ")")};
  for (const Gpu& gpu : gpus) devices.push_back(describe(gpu));
  return devices;
}

std::string text_of_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append(line).append("\n");
  return text;
}

// How long a thread of a worker spins while it waits for the others before it sleeps. libgomp's
// default is 300,000 rounds: where other processes use the cores it spins away the time in which
// the thread that it waits for could run (docs/benchmarks/cpu.md). libgomp reads this when it is
// loaded, so a worker cannot set it for itself. A choice of the environment stands.
using Environment = std::vector<std::pair<std::string, std::string>>;
void add_waiting(Environment& environment) {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(chosen) != nullptr) return;  // NOLINT(concurrency-mt-unsafe): only read
  }
  environment.emplace_back("GOMP_SPINCOUNT", "1000");
}

Environment worker_environment(int workers_of_host, const Binding& binding) {
  const int threads = threads_of_worker(workers_of_host, binding.cores);
  Environment environment{{"OMP_NUM_THREADS", std::to_string(threads)}};
  add_waiting(environment);
  return environment;
}

/// Nothing where workers are not to be bound, or cannot.
std::optional<Topology> find_topology(BindMode bind) {
  if (bind == BindMode::kNone) return {};
  try {
    return Topology::here();
  } catch (const std::runtime_error& error) {
    print_message("pfc-agent", Severity::kWarning,
                  std::string("workers are not bound to cores: ") + error.what());
    return {};
  }
}

}  // namespace

Agent::Agent(boost::asio::io_context& loop, AgentOptions options, Ended ended)
    : loop_(loop),
      options_(std::move(options)),
      ended_(std::move(ended)),
      id_(options_.id.empty() ? random_id() : options_.id),
      worker_credential_(options_.credential),
      channel_(make_channel(options_.coordinator, options_.credential)),
      stub_(proto::CoordinatorService::NewStub(channel_)),
      topology_(find_topology(options_.bind)),
      children_(loop, SIGCHLD),
      grace_(loop),
      leave_(loop),
      limit_(options_.patience.count()),
      faults_(loop,
              {.allowed = options_.allow_chaos,
               .worker = [this](int slot,
                                std::int64_t incarnation) { return process_of(slot, incarnation); },
               .die = [] { ::kill(::getpid(), SIGKILL); }}),
      notice_(options_.coordinator, options_.stays) {
  if (!options_.log_folder.empty()) {
    logs_ = std::make_unique<WorkerLogs>(options_.log_folder, options_.log_limits,
                                         [](const std::string& problem) {
                                           print_message("pfc-agent", Severity::kWarning, problem);
                                         });
  }
  if (!guard_.is_there()) {
    print_message("pfc-agent", Severity::kWarning,
                  "no process is left for a guard: were this agent killed, processes that its "
                  "workers start would stay");
  }
  watch_children();
  connect();
}

Agent::~Agent() {
  network_.end();  // its threads use the stream
  stream_.reset();
  logs_.reset();
  for (const auto& [number, slot] : slots_) {
    if (slot.process) slot.process->abandon();
  }
}

void Agent::connect() {
  Stream::Options options;
  options.channel = channel_;
  options.open = [this](grpc::ClientContext* context) { return stub_->AttachAgent(context); };
  options.hello = [this, first = registration()] {
    std::vector<proto::AgentMessage> messages = outbox_.events();
    messages.insert(messages.begin(), first);
    return messages;
  };
  options.take = [this] {
    std::vector<proto::AgentMessage> messages = outbox_.take();
    if (messages.empty()) messages.emplace_back().mutable_heartbeat();
    return messages;
  };
  options.received = [this](const proto::AgentCommand& command) {
    boost::asio::post(loop_, [this, command] { obey(command); });
  };
  options.lost = [this](const grpc::Status& status, std::chrono::milliseconds silence) {
    return connection_lost(status, silence);
  };
  if (options_.stays) options.max_backoff = kLongestPause;
  stream_ = std::make_unique<Stream>(std::move(options));
}

bool Agent::connection_lost(const grpc::Status& status, std::chrono::milliseconds silence) {
  boost::asio::post(loop_, [this] { connected_ = false; });
  const bool refused = is_final(status);
  const std::chrono::milliseconds limit{limit_};
  const bool give_up = refused || silence >= limit;
  if (!give_up || options_.stays) {
    const auto why = notice_.attempt_failed(silence, limit, status.error_message(), refused);
    if (why) print_message("pfc-agent", Severity::kWarning, *why);
  }
  if (!give_up) return true;
  std::string problem = status.error_message();
  if (!refused) {
    problem = "coordinator " + options_.coordinator + " cannot be reached for " +
              std::to_string(silence.count() / 1000) + " s (" + problem + ")";
  }
  boost::asio::post(loop_, [this, problem, refused] {
    lost_ = lost_ || !refused;
    if (options_.stays) {
      if (!leaving_) let_workers_end(refused ? options_.grace : options_.lost_grace);
    } else if (refused) {
      end(problem);
    } else {
      end_without_coordinator(problem);
    }
  });
  return options_.stays;
}

void Agent::obey(const proto::AgentCommand& command) {
  connected_ = true;
  if (command.has_registered()) {
    const std::chrono::milliseconds told{command.registered().coordinator_grace_ms()};
    told_grace_ = told;
    limit_ = options_.coordinator_grace.value_or(told).count();
  }
  if (command.has_read_log()) return send_log(command.read_log());
  if (command.job_id() != job_id_) begin_job(command.job_id());
  if (command.has_shut_down()) return options_.stays ? begin_job({}) : end({});
  if (command.has_network()) return network_.step(command.network());
  if (command.has_describe()) return describe(command.describe());
  if (command.has_fault()) return inject(command.fault());
  if (!command.has_desired() || job_id_.empty()) return;
  desired_ = command.desired();
  leaving_ = lost_ = false;
  reconcile();
  end_if_alone();
}

void Agent::begin_job(const std::string& job_id) {
  job_id_ = job_id;
  outbox_.begin_job();
  for (auto& [number, slot] : slots_) slot.incarnation = 0;
  if (ending_) return;
  if (job_id.empty()) {
    let_workers_end(options_.lost_grace);
  } else {
    desired_.Clear();
    leaving_ = false;
    reconcile();
  }
  end_if_alone();
}

void Agent::send_log(const proto::ReadLog& wanted) {
  proto::AgentMessage reply;
  reply.mutable_log_chunk()->set_request(wanted.request());
  const auto send = [this](proto::AgentMessage message) {
    outbox_.add_log(std::move(message));
    stream_->wake();
  };
  if (!logs_) {
    reply.mutable_log_chunk()->set_problem("its agent keeps no logs");
    return send(std::move(reply));
  }
  const auto most = std::clamp<std::int64_t>(wanted.bytes(), 0, kLongestLogPiece);
  logs_->read(wanted.job_id(), wanted.rank(), wanted.from().part(), wanted.from().offset(),
              static_cast<std::size_t>(most),
              [this, send, reply](const LogPiece& piece, const std::string& problem) mutable {
                proto::LogChunk& chunk = *reply.mutable_log_chunk();
                chunk.set_text(piece.text);
                chunk.mutable_next()->set_part(piece.part);
                chunk.mutable_next()->set_offset(piece.offset);
                chunk.set_skipped(piece.skipped);
                chunk.set_problem(problem);
                boost::asio::post(loop_, [send, reply] { send(reply); });
              });
}

void Agent::inject(const proto::Fault& fault) {
  faults_.begin(fault, [&](const std::string& problem) {
    proto::AgentMessage reply = message();
    reply.mutable_fault()->set_request(fault.request());
    reply.mutable_fault()->set_problem(problem);
    outbox_.add_report(std::move(reply));
    stream_->wake();
  });
}

std::shared_ptr<WorkerProcess> Agent::process_of(int slot, std::int64_t incarnation) const {
  const auto found = slots_.find(slot);
  return found != slots_.end() && found->second.incarnation == incarnation ? found->second.process
                                                                           : nullptr;
}

// The stack goes the way of all output. The answer comes after it, because the worker is killed
// then.
void Agent::describe(const proto::DescribeWorker& wanted) {
  const auto process = process_of(wanted.slot(), wanted.incarnation());
  if (!process) return;
  const pid_t pid = process->pid();
  proto::AgentMessage reply = message();
  reply.mutable_described()->set_slot(wanted.slot());
  reply.mutable_described()->set_incarnation(wanted.incarnation());
  reply.mutable_described()->set_text(describe_process(pid));
  const auto send = [this, reply] {
    outbox_.add_report(reply);
    stream_->wake();
  };
  if (!handles_signal(pid, SIGUSR1)) return send();
  ::syscall(SYS_tgkill, pid, pid, SIGUSR1);  // to its first thread
  const auto timer = stacks_.emplace(stacks_.end(), loop_, kStackTime);
  timer->async_wait([this, send, timer](const boost::system::error_code& error) {
    if (error) return;  // the agent has gone
    stacks_.erase(timer);
    send();
  });
}

const Agent::Wanted* Agent::wish_for(int number, const Slot& slot) const {
  const auto& slots = desired_.slots();
  const auto wanted = std::find_if(slots.begin(), slots.end(), [&](const Wanted& each) {
    return each.slot() == number && each.incarnation() == slot.incarnation;
  });
  return wanted == slots.end() ? nullptr : &*wanted;
}

void Agent::reconcile() {
  if (ending_ || leaving_) return;
  for (auto& [number, slot] : slots_) {
    if (!slot.process) continue;
    const Wanted* const wanted = wish_for(number, slot);
    const int signal = wanted == nullptr                                  ? SIGKILL
                       : wanted->wish() == proto::DesiredSlots::KILL      ? SIGKILL
                       : wanted->wish() == proto::DesiredSlots::TERMINATE ? SIGTERM
                                                                          : 0;
    if (signal != 0 && signal != slot.sent) slot.process->send(slot.sent = signal);
  }
  if (has_workers_of_last_job()) return;  // their GPUs and their output are still in use
  if (left_job_) return;                  // the host is to be free
  for (const Wanted& wanted : desired_.slots()) {
    Slot& slot = slots_[wanted.slot()];
    if (!slot.process && slot.incarnation < wanted.incarnation()) begin_incarnation(slot, wanted);
  }
}

bool Agent::has_workers_of_last_job() const {
  return std::ranges::any_of(slots_, [](const auto& each) {
    return each.second.process != nullptr && each.second.incarnation == 0;
  });
}

void Agent::begin_incarnation(Slot& slot, const Wanted& wanted) {
  slot = {.incarnation = wanted.incarnation(), .process = nullptr};
  outbox_.begin_incarnation(wanted.slot());
  if (wanted.wish() == proto::DesiredSlots::RUN) return start_worker(slot, wanted);
  // It was never started, and is to have ended already.
  proto::AgentMessage event = message();
  event.mutable_exited()->set_slot(wanted.slot());
  event.mutable_exited()->set_incarnation(wanted.incarnation());
  event.mutable_exited()->set_signal(SIGTERM);
  tell(std::move(event));
}

int Agent::places() const { return std::max(desired_.places(), desired_.slots_size()); }

Rank Agent::rank_of(const proto::WorkerOutput& said, Rank first) const {
  for (const Wanted& wanted : desired_.slots()) {
    if (wanted.slot() == said.slot() && wanted.incarnation() == said.incarnation()) {
      return wanted.rank();
    }
  }
  return first;
}

Binding Agent::binding_of(int slot) const {
  if (!topology_) return {};
  std::vector<int> near;
  for (const Gpu& gpu : options_.gpus.gpus) {
    near.push_back(topology_->node_of_device(gpu.pci_bus_id));
  }
  const auto plan = plan_binding(*topology_, options_.bind, places(), near);
  const auto place = static_cast<std::size_t>(slot);
  return place < plan.size() ? plan[place] : Binding();
}

// CUDA_VISIBLE_DEVICES stays as it is: every worker sees all GPUs of the host and uses the one of
// its local rank. So a GPU has the same number in all messages, and NCCL can reach the memory of
// the other GPUs directly. A worker makes a CUDA context on its own GPU alone.
SpawnOptions Agent::command_line(const Wanted& wanted) const {
  const Binding binding = binding_of(wanted.slot());
  SpawnOptions options{
      .program = options_.worker_program,
      .arguments = {"--coordinator", options_.coordinator, "--job", job_id_, "--agent", id_,
                    "--slot", std::to_string(wanted.slot()), "--incarnation",
                    std::to_string(wanted.incarnation()), "--join-timeout",
                    in_seconds(desired_.join_timeout_ms()), "--collective-timeout",
                    in_seconds(desired_.collective_timeout_ms()), "--coordinator-grace",
                    in_seconds(limit_)},
      .environment = worker_environment(places(), binding),
      .capture_output = true,
      .input = worker_credential_.text(desired_.worker_certificate()),
      .cpus = binding.cpus};
  if (!options.input.empty()) {
    options.arguments.insert(options.arguments.end(), {"--credential", "-"});
  }
  return options;
}

void Agent::start_worker(Slot& slot, const Wanted& wanted) {
  const auto about = [&wanted](auto* event) {
    event->set_slot(wanted.slot());
    event->set_incarnation(wanted.incarnation());
  };
  proto::AgentMessage output = message(), exited = message(), event = message();
  about(output.mutable_output());
  about(exited.mutable_exited());
  try {
    WorkerProcess::Handler handler;
    handler.output = [this, output, rank = wanted.rank()](bool is_stderr,
                                                          std::vector<std::string> lines) {
      if (logs_) logs_->add(output.job_id(), rank_of(output.output(), rank), text_of_lines(lines));
      proto::AgentMessage said = output;
      said.mutable_output()->set_is_stderr(is_stderr);
      for (std::string& line : lines) said.mutable_output()->add_lines(std::move(line));
      outbox_.add_output(std::move(said));
      stream_->wake();
    };
    handler.ended = [this, exited](const ProcessExit& exit, const auto& last_stderr) {
      worker_ended(exited, exit, last_stderr);
    };
    slot.process = WorkerProcess::start(loop_, command_line(wanted), std::move(handler));
    guard_.watch(slot.process->pid());
    if (logs_) logs_->add(job_id_, wanted.rank(), {});  // there is a log from now on
    about(event.mutable_started());
    event.mutable_started()->set_pid(slot.process->pid());
  } catch (const std::exception& error) {  // also where no process or file is left
    event = exited;
    event.mutable_exited()->set_not_started(text_of(error));
  }
  tell(std::move(event));
}

void Agent::watch_children() {
  children_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    watch_children();
    const auto slots = slots_;  // a process that has ended leaves its slot, for another one perhaps
    for (const auto& [number, slot] : slots) {
      if (slot.process) slot.process->look();
    }
  });
}

void Agent::worker_ended(const proto::AgentMessage& about, const ProcessExit& exit,
                         const std::vector<std::string>& last_stderr) {
  proto::AgentMessage event = about;
  proto::WorkerExited* exited = event.mutable_exited();
  Slot& slot = slots_.at(exited->slot());
  guard_.forget(slot.process->pid());
  exited->set_pid(slot.process->pid());
  exited->set_code(exit.code);
  exited->set_signal(exit.signal);
  exited->set_coordinator_lost(slot.lost);
  for (const std::string& line : last_stderr) exited->add_last_stderr(line);
  slot.process.reset();
  if (event.job_id() == job_id_) tell(std::move(event));
  reconcile();
  end_if_alone();
}

void Agent::send_to_workers(int signal) {
  for (const auto& [number, slot] : slots_) {
    if (slot.process) slot.process->send(signal);
  }
}

bool Agent::alone() const {
  return std::ranges::none_of(slots_,
                              [](const auto& each) { return each.second.process != nullptr; });
}

void Agent::end(const std::string& problem) { end_within(options_.grace, problem); }

void Agent::leave(const std::string& reason) {
  if (ending_) return;
  // Without a coordinator the workers may still write a checkpoint together.
  if (!connected_ || alone()) return end_within(options_.leave_grace, {});
  left_job_ = job_id_;
  proto::AgentMessage event = message();
  event.mutable_leaving()->set_reason(reason);
  event.mutable_leaving()->set_grace_ms(options_.leave_grace.count());
  tell(std::move(event));
  leave_.expires_after(options_.leave_grace);
  leave_.async_wait([this](const boost::system::error_code& error) {
    if (!error) end({});
  });
}

void Agent::coordinator_killed() {
  const auto grace =
      options_.coordinator_grace.value_or(told_grace_.value_or(options_.first_coordinator_grace));
  if (grace.count() == 0) {
    print_message("pfc-agent", Severity::kWarning,
                  "the coordinator was killed; its workers write a checkpoint and end");
    return end_without_coordinator("the coordinator was killed; its workers have ended");
  }
  limit_ = grace.count();  // also where it has not been there yet
  print_message("pfc-agent", Severity::kWarning,
                "the coordinator was killed; its workers train on for " +
                    in_seconds(grace.count()) +
                    " s, in which the same command can take its place (docs/survival.md)");
}

void Agent::end_without_coordinator(const std::string& problem) {
  end_within(options_.lost_grace, problem);
}

void Agent::end_within(std::chrono::milliseconds grace, const std::string& problem) {
  if (ending_) return;
  ending_ = true;
  problem_ = problem;
  leave_.cancel();
  let_workers_end(grace);
  end_if_alone();
}

void Agent::let_workers_end(std::chrono::milliseconds grace) {
  desired_.Clear();
  leaving_ = true;
  for (auto& [number, slot] : slots_) {
    if (!slot.process || slot.sent != 0) continue;
    slot.process->send(slot.sent = SIGTERM);
    slot.lost = lost_;
  }
  grace_.expires_after(grace);
  grace_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (auto& [number, slot] : slots_) {
      if (slot.process && slot.sent == SIGTERM) slot.process->send(slot.sent = SIGKILL);
    }
  });
}

void Agent::end_if_alone() {
  // The job has ended, or goes on without this host.
  const bool has_left =
      left_job_ && (job_id_.empty() || *left_job_ != job_id_ || desired_.slots().empty());
  if (!alone() || !(ending_ || has_left)) return;
  ending_ = true;
  leave_.cancel();
  grace_.cancel();
  boost::asio::post(loop_, [this] { ended_(problem_); });
}

proto::AgentMessage Agent::message() const {
  proto::AgentMessage event;
  event.set_job_id(job_id_);
  return event;
}

proto::AgentMessage Agent::registration() const {
  proto::AgentMessage first;
  proto::AgentRegistration* registration = first.mutable_registration();
  registration->set_host(options_.host);
  registration->set_agent_id(id_);
  registration->set_version(version());
  registration->set_once(!options_.stays);
  registration->set_cores(usable_cores());
  for (std::string& device : list_devices(options_.gpus.gpus, options_.bind)) {
    registration->add_devices(std::move(device));
  }
  registration->set_gpus(static_cast<int>(options_.gpus.gpus.size()));
  registration->set_no_gpu(options_.gpus.problem);
  registration->set_worker_certificate_request(worker_credential_.request());
  for (proto::NetworkAddress& address : network_addresses()) {
    *registration->add_addresses() = std::move(address);
  }
  return first;
}

void Agent::tell(proto::AgentMessage event) {
  outbox_.add_event(std::move(event));
  stream_->wake();
}

void Agent::tell(const proto::NetworkReport& report) {
  proto::AgentMessage message;
  *message.mutable_network() = report;
  outbox_.add_report(std::move(message));
  stream_->wake();
}

}  // namespace pfc
