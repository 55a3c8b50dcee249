#include "agent/agent.h"

#include <boost/asio/post.hpp>
#include <random>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/machine/cores.h"
#include "common/version.h"
#include "proto/channel.h"

namespace pfc {
namespace {

std::string random_id() {
  std::random_device random;
  return std::to_string((std::uint64_t{random()} << 32) | random());
}

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
  for (const auto& [rank, worker] : workers_) worker->abandon();
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
  if (command.has_shut_down()) return end({});
  if (command.has_start()) return start_workers(command.generation(), command.start());
  if (command.has_signal() && command.generation() == generation_) {
    send_to_workers(command.signal().kill() ? SIGKILL : SIGTERM);
  }
}

void Agent::start_workers(Generation generation, const proto::StartWorkers& start) {
  if (ending_ || generation <= generation_) return;  // sent again after a reconnection
  generation_ = generation;
  outbox_.begin_generation(generation);
  for (const auto& [rank, worker] : std::exchange(workers_, {})) worker->abandon();
  for (const proto::StartWorkers::Slot& slot : start.slots()) {
    start_worker(slot.rank(), start);
  }
}

// CUDA_VISIBLE_DEVICES stays as it is: every worker sees all GPUs of the host and uses the one of
// its local rank. So a GPU has the same number in all messages, and NCCL can reach the memory of
// the other GPUs directly. A worker makes a CUDA context on its own GPU alone.
void Agent::start_worker(Rank rank, const proto::StartWorkers& start) {
  SpawnOptions spawn{
      .program = options_.worker_program,
      .arguments = {"--coordinator", options_.coordinator, "--rank", std::to_string(rank),
                    "--generation", std::to_string(generation_), "--join-timeout",
                    in_seconds(start.join_timeout_ms()), "--collective-timeout",
                    in_seconds(start.collective_timeout_ms())},
      .environment = {{"OMP_NUM_THREADS", std::to_string(threads_of_worker(start.slots_size()))}},
      .capture_output = true};
  proto::AgentMessage event = message();
  try {
    WorkerProcess::Handler handler;
    handler.output = [this, rank](bool is_stderr, std::vector<std::string> lines) {
      proto::AgentMessage output = message();
      output.mutable_output()->set_rank(rank);
      output.mutable_output()->set_is_stderr(is_stderr);
      for (std::string& line : lines) output.mutable_output()->add_lines(std::move(line));
      outbox_.add_output(std::move(output));
      stream_->wake();
    };
    handler.ended = [this, rank](const ProcessExit& exit, const auto& last_stderr) {
      worker_ended(rank, exit, last_stderr);
    };
    workers_[rank] = WorkerProcess::start(loop_, spawn, std::move(handler));
    event.mutable_started()->set_rank(rank);
    event.mutable_started()->set_pid(workers_[rank]->pid());
  } catch (const InputError& error) {
    event.mutable_exited()->set_rank(rank);
    event.mutable_exited()->set_not_started(error.what());
  }
  tell(std::move(event));
}

void Agent::watch_children() {
  children_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    watch_children();
    const auto workers = workers_;  // a worker that has ended is taken off the list
    for (const auto& [rank, worker] : workers) worker->look();
  });
}

void Agent::worker_ended(Rank rank, const ProcessExit& exit,
                         const std::vector<std::string>& last_stderr) {
  proto::AgentMessage event = message();
  proto::WorkerExited* exited = event.mutable_exited();
  exited->set_rank(rank);
  exited->set_pid(workers_.at(rank)->pid());
  exited->set_code(exit.code);
  exited->set_signal(exit.signal);
  for (const std::string& line : last_stderr) exited->add_last_stderr(line);
  workers_.erase(rank);
  tell(std::move(event));
  end_if_alone();
}

void Agent::send_to_workers(int signal) {
  for (const auto& [rank, worker] : workers_) worker->send(signal);
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
  if (!ending_ || !workers_.empty()) return;
  grace_.cancel();
  boost::asio::post(loop_, [this] { ended_(problem_); });
}

proto::AgentMessage Agent::message() const {
  proto::AgentMessage event;
  event.set_generation(generation_);
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
