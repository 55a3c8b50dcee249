#include "agent/agent.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/error_text.h"
#include "common/machine/cores.h"
#include "common/random_id.h"
#include "common/version.h"
#include "proto/channel.h"

namespace pfc {
namespace {

/// A duration as pfc-worker's options take it: "70", "2.5".
std::string in_seconds(std::int64_t milliseconds) {
  std::ostringstream text;
  text << static_cast<double>(milliseconds) / 1000;
  return text.str();
}

/// Whether another attempt would be refused as well.
bool is_final(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
}

/// The devices for the status page: "cpu (16 cores)", "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)".
std::vector<std::string> list_devices(const std::vector<Gpu>& gpus) {
  std::vector<std::string> devices{"cpu (" + std::to_string(usable_cores()) + " cores)"};
  for (const Gpu& gpu : gpus) devices.push_back(describe(gpu));
  return devices;
}

}  // namespace

Agent::Agent(boost::asio::io_context& loop, AgentOptions options, Ended ended)
    : loop_(loop),
      options_(std::move(options)),
      ended_(std::move(ended)),
      id_(random_id()),
      channel_(make_channel(options_.coordinator)),
      stub_(proto::CoordinatorService::NewStub(channel_)),
      children_(loop, SIGCHLD),
      grace_(loop) {
  watch_children();
  connect();
}

Agent::~Agent() {
  stream_.reset();
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
    const bool give_up = is_final(status) || silence >= options_.patience;
    if (!give_up) return true;
    std::string problem = status.error_message();
    if (!is_final(status)) {
      problem = "coordinator " + options_.coordinator + " cannot be reached for " +
                std::to_string(silence.count() / 1000) + " s (" + problem + ")";
    }
    boost::asio::post(loop_, [this, problem] { end(problem); });
    return false;
  };
  stream_ = std::make_unique<Stream>(std::move(options));
}

void Agent::obey(const proto::AgentCommand& command) {
  if (command.job_id() != job_id_) begin_job(command.job_id());
  if (command.has_shut_down()) return end({});
  if (!command.has_desired()) return;
  desired_ = command.desired();
  reconcile();
}

void Agent::begin_job(const std::string& job_id) {
  job_id_ = job_id;
  desired_.Clear();
  outbox_.begin_job();
  for (auto& [number, slot] : slots_) slot.incarnation = 0;
  reconcile();
}

const Agent::Wanted* Agent::wish_for(int number, const Slot& slot) const {
  const auto& slots = desired_.slots();
  const auto wanted = std::find_if(slots.begin(), slots.end(), [&](const Wanted& each) {
    return each.slot() == number && each.incarnation() == slot.incarnation;
  });
  return wanted == slots.end() ? nullptr : &*wanted;
}

void Agent::reconcile() {
  if (ending_) return;
  for (auto& [number, slot] : slots_) {
    if (!slot.process) continue;
    const Wanted* const wanted = wish_for(number, slot);
    const int signal = wanted == nullptr                                  ? SIGKILL
                       : wanted->wish() == proto::DesiredSlots::KILL      ? SIGKILL
                       : wanted->wish() == proto::DesiredSlots::TERMINATE ? SIGTERM
                                                                          : 0;
    if (signal != 0 && signal != slot.sent) slot.process->send(slot.sent = signal);
  }
  for (const Wanted& wanted : desired_.slots()) {
    Slot& slot = slots_[wanted.slot()];
    if (!slot.process && slot.incarnation < wanted.incarnation()) begin_incarnation(slot, wanted);
  }
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

// CUDA_VISIBLE_DEVICES stays as it is: every worker sees all GPUs of the host and uses the one of
// its local rank. So a GPU has the same number in all messages, and NCCL can reach the memory of
// the other GPUs directly. A worker makes a CUDA context on its own GPU alone.
SpawnOptions Agent::command_line(const Wanted& wanted) const {
  return {.program = options_.worker_program,
          .arguments = {"--coordinator", options_.coordinator, "--job", job_id_, "--agent", id_,
                        "--slot", std::to_string(wanted.slot()), "--incarnation",
                        std::to_string(wanted.incarnation()), "--join-timeout",
                        in_seconds(desired_.join_timeout_ms()), "--collective-timeout",
                        in_seconds(desired_.collective_timeout_ms())},
          .environment = {{"OMP_NUM_THREADS",
                           std::to_string(threads_of_worker(desired_.slots_size()))}},
          .capture_output = true};
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
    handler.output = [this, output](bool is_stderr, std::vector<std::string> lines) {
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
  exited->set_pid(slot.process->pid());
  exited->set_code(exit.code);
  exited->set_signal(exit.signal);
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

void Agent::end(const std::string& problem) {
  if (ending_) return;
  ending_ = true;
  problem_ = problem;
  send_to_workers(SIGTERM);
  grace_.expires_after(options_.grace);
  grace_.async_wait([this](const boost::system::error_code& error) {
    if (!error) send_to_workers(SIGKILL);
  });
  end_if_alone();
}

void Agent::end_if_alone() {
  if (!ending_ || !alone()) return;
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
  registration->set_cores(usable_cores());
  for (std::string& device : list_devices(options_.gpus.gpus)) {
    registration->add_devices(std::move(device));
  }
  registration->set_gpus(static_cast<int>(options_.gpus.gpus.size()));
  registration->set_no_gpu(options_.gpus.problem);
  return first;
}

void Agent::tell(proto::AgentMessage event) {
  outbox_.add_event(std::move(event));
  stream_->wake();
}

}  // namespace pfc
