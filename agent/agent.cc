#include "agent/agent.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "agent/logs/log_reply.h"
#include "agent/registration.h"
#include "common/log.h"
#include "common/random_id.h"
#include "proto/channel.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kLongestJoinPause{10};  // between refused attempts
constexpr std::chrono::milliseconds kFarewell{2'000};  // time to send the last message

/// Returns whether another attempt would be refused too.
bool is_final(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
}

std::string output_text(const proto::WorkerOutput& said) {
  std::string text;
  for (const std::string& line : said.lines()) text.append(line).append("\n");
  return text;
}

}  // namespace

Agent::Agent(boost::asio::io_context& loop, AgentOptions options, Ended ended)
    : loop_(loop),
      options_(std::move(options)),
      ended_(std::move(ended)),
      id_(options_.id.empty() ? random_id() : options_.id),
      worker_command_({.program = options_.worker_program,
                       .coordinator = options_.coordinator,
                       .agent_id = id_,
                       .credential = options_.credential,
                       .gpus = options_.gpus.gpus,
                       .bind = options_.bind}),
      channel_(make_channel(options_.coordinator, options_.credential)),
      stub_(proto::CoordinatorService::NewStub(channel_)),
      leave_(loop),
      describer_(loop),
      limit_(options_.patience.count()),
      workers_(loop, guard_, slot_handler()),
      faults_(loop, {.allowed = options_.allow_chaos,
                     .worker =
                         [this](int slot, std::int64_t incarnation) {
                           return workers_.process_of(slot, incarnation);
                         },
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
                  "cannot start the guard process: raise the limit of processes (ulimit -u) or end "
                  "other programs; without it, processes that workers started keep running if this "
                  "agent is killed");
  }
  connect();
}

Agent::~Agent() {
  network_.end();  // its threads use the stream
  stream_.reset();
  logs_.reset();
  workers_.abandon();
}

void Agent::connect() {
  Stream::Options options;
  options.channel = channel_;
  options.open = [this](grpc::ClientContext* context) { return stub_->AttachAgent(context); };
  options.hello =
      [this, first = make_registration(options_, id_, worker_command_.certificate_request())] {
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
  if (options_.stays) options.max_backoff = kLongestJoinPause;
  stream_ = std::make_unique<Stream>(std::move(options));
}

bool Agent::connection_lost(const grpc::Status& status, std::chrono::milliseconds silence) {
  boost::asio::post(loop_, [this] { connected_ = false; });
  const bool refused = is_final(status);
  const std::chrono::milliseconds limit{limit_};
  const bool give_up = refused || silence >= limit;
  if (!give_up || options_.stays) {
    const auto why = notice_.attempt_failed(silence, limit, problem_of(status), refused);
    if (why) print_message("pfc-agent", Severity::kWarning, *why);
  }
  if (!give_up) return true;
  std::string problem = problem_of(status);
  if (!refused) {
    problem = "coordinator " + options_.coordinator +
              (limit.count() == 0
                   ? " cannot be reached, and workers do not wait for a new coordinator "
                     "(--coordinator-grace 0)"
                   : " cannot be reached for " + std::to_string(silence.count() / 1000) + " s") +
              " (" + problem + ")";
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
  workers_.begin_job(job_id);
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
  reply_with_log(logs_.get(), wanted, loop_, [this](proto::AgentMessage reply) {
    outbox_.add_log(std::move(reply));
    stream_->wake();
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

// Replies after the worker has written its stack, because the coordinator kills the worker after
// this reply.
void Agent::describe(const proto::DescribeWorker& wanted) {
  const auto process = workers_.process_of(wanted.slot(), wanted.incarnation());
  if (!process) return;
  proto::AgentMessage reply = message();
  reply.mutable_described()->set_slot(wanted.slot());
  reply.mutable_described()->set_incarnation(wanted.incarnation());
  describer_.describe(process->pid(), [this, reply](const std::string& text) mutable {
    reply.mutable_described()->set_text(text);
    outbox_.add_report(std::move(reply));
    stream_->wake();
  });
}

void Agent::reconcile() {
  if (ending_ || leaving_) return;
  const bool may_start = !left_job_;  // false while the host is drained
  workers_.reconcile(desired_, may_start);
}

WorkerSlots::Handler Agent::slot_handler() {
  return {.command =
              [this](const WorkerSlots::Wanted& wanted) {
                return worker_command_.of(job_id_, desired_, wanted,
                                          std::chrono::milliseconds(limit_));
              },
          .begins = [this](int slot) { outbox_.begin_incarnation(slot); },
          .runs =
              [this](const WorkerSlots::Wanted& wanted) {
                if (logs_) logs_->add(job_id_, wanted.rank(), {});  // create the log
              },
          .event = [this](proto::AgentMessage event) { tell(std::move(event)); },
          .output = [this](proto::AgentMessage said,
                           Rank first) { worker_said(std::move(said), first); },
          .ended =
              [this] {
                reconcile();
                end_if_alone();
              }};
}

Rank Agent::rank_of(const proto::WorkerOutput& said, Rank first) const {
  for (const WorkerSlots::Wanted& wanted : desired_.slots()) {
    if (wanted.slot() == said.slot() && wanted.incarnation() == said.incarnation()) {
      return wanted.rank();
    }
  }
  return first;
}

void Agent::worker_said(proto::AgentMessage said, Rank first) {
  const proto::WorkerOutput& output = said.output();
  if (logs_) logs_->add(said.job_id(), rank_of(output, first), output_text(output));
  outbox_.add_output(std::move(said));
  stream_->wake();
}

void Agent::end(const std::string& problem) { end_within(options_.grace, problem); }

void Agent::leave(const std::string& reason) {
  if (ending_) return;
  // Without a connection the agent ends its workers itself. The workers get leave_grace here too,
  // because together they may still write a checkpoint.
  const bool is_idle = workers_.empty();
  if (!connected_ || (is_idle && job_id_.empty())) return end_within(options_.leave_grace, {});
  const auto grace = is_idle ? std::min(options_.leave_grace, kFarewell) : options_.leave_grace;
  left_job_ = job_id_;
  proto::AgentMessage event = message();
  event.mutable_leaving()->set_reason(reason);
  event.mutable_leaving()->set_grace_ms(options_.leave_grace.count());
  tell(std::move(event));
  leave_.expires_after(grace);
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
  limit_ = grace.count();  // replaces `patience` if this agent was not connected yet
  print_message("pfc-agent", Severity::kWarning,
                "the coordinator was killed; its workers keep training for " + in_seconds(grace) +
                    " s; run the same command again within this time to take over the job "
                    "(docs/survival.md)");
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
  workers_.end_all(grace, lost_);
}

void Agent::end_if_alone() {
  // The job has ended, or continues without this host.
  const bool has_left =
      left_job_ && (job_id_.empty() || *left_job_ != job_id_ || desired_.slots().empty());
  if (!workers_.empty() || !(ending_ || has_left)) return;
  ending_ = true;
  leave_.cancel();
  boost::asio::post(loop_, [this] { ended_(problem_); });
}

proto::AgentMessage Agent::message() const {
  proto::AgentMessage event;
  event.set_job_id(job_id_);
  return event;
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
