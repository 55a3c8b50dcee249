#include "coordinator/rpc/service.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "common/network_address.h"
#include "coordinator/audited_calls.h"
#include "coordinator/rpc/agent_streams.h"
#include "coordinator/rpc/calls.h"
#include "coordinator/rpc/grpc_server.h"
#include "coordinator/rpc/token_calls.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc {

// Overrides the generated function of a unary call: `member` of `object` handles its request on the
// event loop (Calls::handle()). access/roles.cc says who may make it. AuditedCalls and TokenCalls
// write changes to the audit log.
#define PFC_CALL(Name, object, member)                                                           \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* context,                           \
                                 const proto::Name##Request* request, proto::Name##Reply* reply) \
      override {                                                                                 \
    return calls_.handle(context, request, reply, object, member);                               \
  }

class Service::Adapter final : public proto::CoordinatorService::CallbackService {
 public:
  Adapter(boost::asio::io_context& loop, Coordinator& coordinator, const ServiceOptions& options)
      : loop_(loop),
        coordinator_(coordinator),
        audited_(coordinator, options.gate),
        server_(std::in_place, loop,
                GrpcServer::Options{.address = options.address,
                                    .port = options.port,
                                    .gate = options.gate,
                                    .pending = options.pending,
                                    .stalled =
                                        [&coordinator](const std::string& address) {
                                          coordinator.handshake_stalled(address);
                                        }}),
        calls_(loop, coordinator, options.gate, server_->pending()),
        agents_(loop, coordinator, options.gate, calls_),
        tokens_(coordinator, options.gate,
                join_host_port(options.reachable.empty() ? options.address : options.reachable,
                               server_->port()),
                [this](const std::string& host) { agents_.close_outdated_links_of(host); }),
        port_(server_->port()) {
    server_->start(*this);
  }

  int port() const { return port_; }

  /// Returns false if no thread can be started to shut gRPC down.
  bool shut_down() {
    if (!server_) return true;
    server_->close();
    coordinator_.close();
    bool closed = false;
    const auto work = boost::asio::make_work_guard(loop_);
    loop_.restart();
    // Runs on another thread, because it waits for calls that end on the loop.
    std::thread closer;
    try {
      closer = std::thread([&] {
        server_->shut_down();
        boost::asio::post(loop_, [&] { closed = true; });
      });
    } catch (const std::system_error&) {
      return false;
    }
    while (!closed || calls_.open_streams() > 0) run_one();
    closer.join();
    server_.reset();
    return true;
  }

  AgentStreams::Reactor* AttachAgent(grpc::CallbackServerContext* context) override {
    return agents_.attach(*context);
  }

  grpc::ServerBidiReactor<proto::WorkerMessage, proto::WorkerCommand>* AttachWorker(
      grpc::CallbackServerContext* context) override {
    const auto session = std::make_shared<WorkerSession>();  // shared by the callbacks below
    auto* const refused =
        calls_.refuse_stream<proto::WorkerMessage, proto::WorkerCommand>(*context, session->caller);
    if (refused != nullptr) return refused;
    return calls_.open<proto::WorkerMessage, proto::WorkerCommand>(
        [this, session](WorkerLink& link, const proto::WorkerMessage& message) {
          worker_said(*session, message, link);
        },
        [this, session](WorkerLink& link) {
          if (session->rank) coordinator_.workers().link_closed(*session->rank, link);
        });
  }

  PFC_CALL(Join, coordinator_.workers(), &Workers::join)
  PFC_CALL(Finish, coordinator_.workers(), &Workers::finish)
  PFC_CALL(SetValue, coordinator_.workers(), &Workers::set_value)
  PFC_CALL(GetValue, coordinator_.workers(), &Workers::get_value)
  PFC_CALL(GetValues, coordinator_.workers(), &Workers::get_values)
  PFC_CALL(ReportCheck, coordinator_.checks(), &Checks::report)
  PFC_CALL(CheckResult, coordinator_.checks(), &Checks::result)
  PFC_CALL(Status, coordinator_, &Coordinator::status)
  PFC_CALL(Queue, coordinator_.jobs(), &Jobs::list)
  PFC_CALL(Logs, coordinator_.jobs(), &Jobs::read_log)
  PFC_CALL(SendTrace, coordinator_.traces(), &Traces::send)
  PFC_CALL(ReadTrace, coordinator_.traces(), &Traces::read)
  PFC_CALL(StartTrace, audited_, &AuditedCalls::start_trace)
  PFC_CALL(Submit, audited_, &AuditedCalls::submit)
  PFC_CALL(Stop, audited_, &AuditedCalls::stop)
  PFC_CALL(Drain, audited_, &AuditedCalls::drain)
  PFC_CALL(InjectFault, audited_, &AuditedCalls::inject_fault)
  PFC_CALL(ExchangeToken, tokens_, &TokenCalls::exchange)
  PFC_CALL(CreateToken, tokens_, &TokenCalls::create)
  PFC_CALL(ListTokens, tokens_, &TokenCalls::list)
  PFC_CALL(RevokeToken, tokens_, &TokenCalls::revoke)

 private:
  struct WorkerSession {
    Caller caller;
    std::optional<Rank> rank;
  };

  void worker_said(WorkerSession& session, const proto::WorkerMessage& message, WorkerLink& link) {
    Refusal why;
    if (!calls_.current(message, why) || !calls_.fits(session.caller, message, why)) {
      return link.close(why);
    }
    if (!session.rank) {
      if (!coordinator_.workers().attach(message.rank(), link)) {
        return link.close({.message = "there is no rank " + std::to_string(message.rank())});
      }
      session.rank = message.rank();
    }
    if (*session.rank != message.rank()) {
      return link.close({.kind = Refusal::Kind::kInvalid,
                         .message = "the stream is for rank " + std::to_string(*session.rank) +
                                    ", but its message is for rank " +
                                    std::to_string(message.rank())});
    }
    coordinator_.workers().said(message);
  }

  /// Ignores exceptions of handlers, because the service must close.
  void run_one() {
    try {
      loop_.run_one();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  AuditedCalls audited_;
  std::optional<GrpcServer> server_;  // empty after shutdown
  Calls calls_;
  AgentStreams agents_;
  TokenCalls tokens_;
  const int port_;
};

#undef PFC_CALL

Service::Service(boost::asio::io_context& loop, Coordinator& coordinator,
                 const ServiceOptions& options)
    : adapter_(std::make_unique<Adapter>(loop, coordinator, options)) {}

Service::~Service() { shut_down(); }

int Service::port() const { return adapter_->port(); }

bool Service::shut_down() {
  if (adapter_ == nullptr || adapter_->shut_down()) return true;
  static_cast<void>(adapter_.release());  // gRPC's threads still use it
  return false;
}

}  // namespace pfc
