#include "coordinator/rpc/service.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "common/counted.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "coordinator/access/noted.h"
#include "coordinator/admin_calls.h"
#include "coordinator/rpc/agent_streams.h"
#include "coordinator/rpc/calls.h"
#include "coordinator/rpc/grpc_server.h"
#include "coordinator/rpc/token_calls.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc {

class Service::Adapter final : public proto::CoordinatorService::CallbackService {
 public:
  Adapter(boost::asio::io_context& loop, Coordinator& coordinator, const ServiceOptions& options)
      : loop_(loop),
        coordinator_(coordinator),
        gate_(options.gate),
        admin_calls_(coordinator, options.gate),
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
                               server_->port())),
        port_(server_->port()) {
    server_->start(*this);
  }

  int port() const { return port_; }

  /// Returns false if no thread can be started for it.
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

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const proto::JoinRequest* request,
                                 proto::JoinReply* reply) override {
    return calls_.handle<proto::JoinReply>(
        context, request, reply, [this, request](auto answer, const Patience& patience) {
          coordinator_.workers().join(*request, std::move(answer), patience);
        });
  }

  grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context,
                                   const proto::FinishRequest* request,
                                   proto::FinishReply* reply) override {
    return calls_.handle<proto::FinishReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.workers().finish(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* ReportCheck(grpc::CallbackServerContext* context,
                                        const proto::ReportCheckRequest* request,
                                        proto::ReportCheckReply* reply) override {
    return calls_.handle<proto::ReportCheckReply>(
        context, request, reply,
        [this, request](auto answer) { coordinator_.checks().report(*request, answer); });
  }

  grpc::ServerUnaryReactor* CheckResult(grpc::CallbackServerContext* context,
                                        const proto::CheckResultRequest* request,
                                        proto::CheckResultReply* reply) override {
    return calls_.handle<proto::CheckResultReply>(
        context, request, reply,
        [this, request](auto answer) { coordinator_.checks().result(*request, answer); });
  }

  grpc::ServerUnaryReactor* SetValue(grpc::CallbackServerContext* context,
                                     const proto::SetValueRequest* request,
                                     proto::SetValueReply* reply) override {
    return calls_.handle<proto::SetValueReply>(
        context, request, reply, [this, request](auto answer) {
          coordinator_.workers().set_value(*request, std::move(answer));
        });
  }

  grpc::ServerUnaryReactor* GetValue(grpc::CallbackServerContext* context,
                                     const proto::GetValueRequest* request,
                                     proto::GetValueReply* reply) override {
    return calls_.handle<proto::GetValueReply>(
        context, request, reply, [this, request](auto answer, const Patience& patience) {
          coordinator_.workers().get_value(*request, std::move(answer), patience);
        });
  }

  grpc::ServerUnaryReactor* GetValues(grpc::CallbackServerContext* context,
                                      const proto::GetValuesRequest* request,
                                      proto::GetValuesReply* reply) override {
    return calls_.handle<proto::GetValuesReply>(
        context, request, reply, [this, request](auto answer, const Patience& patience) {
          coordinator_.workers().get_values(*request, std::move(answer), patience);
        });
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const proto::StatusRequest* request,
                                   proto::StatusReply* reply) override {
    return calls_.handle<proto::StatusReply>(
        context, request, reply, [this](auto answer) { answer(coordinator_.status()); });
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const proto::DrainRequest* request,
                                  proto::DrainReply* reply) override {
    return calls_.handle<proto::DrainReply>(context, request, reply,
                                            [this, request](auto answer, const Caller& caller) {
                                              admin_calls_.drain(caller, *request, answer);
                                            });
  }

  grpc::ServerUnaryReactor* InjectFault(grpc::CallbackServerContext* context,
                                        const proto::InjectFaultRequest* request,
                                        proto::InjectFaultReply* reply) override {
    using Reply = proto::InjectFaultReply;
    return calls_.handle<Reply>(context, request, reply,
                                [this, request](const Answer<Reply>& answer, const Caller& caller) {
                                  const std::string what = proto::FaultKind_Name(request->kind());
                                  if (request->only_ask())
                                    return coordinator_.agents().inject_fault(*request, answer);
                                  coordinator_.agents().inject_fault(
                                      *request, noted<Reply>(gate_, caller, "chaos", what, answer,
                                                             [what](const Reply& done) {
                                                               return what + ": " + done.target();
                                                             }));
                                });
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const proto::StopRequest* request,
                                 proto::StopReply* reply) override {
    return calls_.handle<proto::StopReply>(context, request, reply,
                                           [this, request](auto answer, const Caller& caller) {
                                             admin_calls_.stop(caller, *request, answer);
                                           });
  }

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const proto::SubmitRequest* request,
                                   proto::SubmitReply* reply) override {
    using Reply = proto::SubmitReply;
    return calls_.handle<Reply>(
        context, request, reply,
        [this, request](const Answer<Reply>& answer, const Caller& caller) {
          const std::string file = request->file();
          const bool is_admin = caller.identity.role == Role::kAdmin;
          coordinator_.jobs().submit(
              *request, is_admin ? "" : caller.serial,
              noted<Reply>(gate_, caller, "submit", "submission of " + file, answer,
                           [file](const Reply& to) { return "job " + to.job_id() + ": " + file; }));
        });
  }

  grpc::ServerUnaryReactor* Queue(grpc::CallbackServerContext* context,
                                  const proto::QueueRequest* request,
                                  proto::QueueReply* reply) override {
    return calls_.handle<proto::QueueReply>(
        context, request, reply,
        [this](auto answer, const Caller&) { answer(coordinator_.jobs().list()); });
  }

  grpc::ServerUnaryReactor* Logs(grpc::CallbackServerContext* context,
                                 const proto::LogsRequest* request,
                                 proto::LogsReply* reply) override {
    return calls_.handle<proto::LogsReply>(context, request, reply,
                                           [this, request](auto answer, const Caller&) {
                                             coordinator_.jobs().read_log(*request, answer);
                                           });
  }

  grpc::ServerUnaryReactor* SendTrace(grpc::CallbackServerContext* context,
                                      const proto::SendTraceRequest* request,
                                      proto::SendTraceReply* reply) override {
    return calls_.handle<proto::SendTraceReply>(
        context, request, reply,
        [this, request](auto answer) { coordinator_.traces().send(*request, answer); });
  }

  grpc::ServerUnaryReactor* StartTrace(grpc::CallbackServerContext* context,
                                       const proto::StartTraceRequest* request,
                                       proto::StartTraceReply* reply) override {
    return calls_.handle<proto::StartTraceReply>(
        context, request, reply,
        [this, request](const Answer<proto::StartTraceReply>& answer, const Caller& caller) {
          const std::string steps = counted(request->steps(), "step");
          coordinator_.traces().start(
              *request, noted<proto::StartTraceReply>(
                            gate_, caller, "trace", "trace of " + steps, answer,
                            [steps](const proto::StartTraceReply& begun) {
                              return "job " + begun.job_id() + ": " + steps + " from step " +
                                     std::to_string(begun.first_step()) + " on";
                            }));
        });
  }

  grpc::ServerUnaryReactor* ReadTrace(grpc::CallbackServerContext* context,
                                      const proto::ReadTraceRequest* request,
                                      proto::ReadTraceReply* reply) override {
    return calls_.handle<proto::ReadTraceReply>(
        context, request, reply, [this, request](auto answer, const Patience& patience) {
          coordinator_.traces().read(*request, std::move(answer), patience);
        });
  }

  grpc::ServerUnaryReactor* ExchangeToken(grpc::CallbackServerContext* context,
                                          const proto::ExchangeTokenRequest* request,
                                          proto::ExchangeTokenReply* reply) override {
    return calls_.handle<proto::ExchangeTokenReply>(
        context, request, reply,
        [this, request](auto answer, const Caller& caller) { exchange(caller, *request, answer); });
  }

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const proto::CreateTokenRequest* request,
                                        proto::CreateTokenReply* reply) override {
    return calls_.handle<proto::CreateTokenReply>(
        context, request, reply, [this, request](auto answer, const Caller& caller) {
          tokens_.create(caller, *request, answer);
        });
  }

  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const proto::ListTokensRequest* request,
                                       proto::ListTokensReply* reply) override {
    return calls_.handle<proto::ListTokensReply>(context, request, reply,
                                                 [this](auto answer) { tokens_.list(answer); });
  }

  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const proto::RevokeTokenRequest* request,
                                        proto::RevokeTokenReply* reply) override {
    using Reply = proto::RevokeTokenReply;
    return calls_.handle<Reply>(
        context, request, reply, [this, request](Answer<Reply> answer, const Caller& caller) {
          const std::string host = request->host();
          tokens_.revoke(caller, *request, [this, host, answer](std::variant<Reply, Refusal> done) {
            if (std::holds_alternative<Reply>(done)) agents_.close_outdated_links_of(host);
            answer(std::move(done));
          });
        });
  }

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
                         .message = "the stream is of rank " + std::to_string(*session.rank) +
                                    ", and its message of rank " + std::to_string(message.rank())});
    }
    coordinator_.workers().said(message);
  }

  /// The new certificate may invalidate the one of an open stream.
  void exchange(const Caller& caller, const proto::ExchangeTokenRequest& request,
                const Answer<proto::ExchangeTokenReply>& answer) {
    using Reply = proto::ExchangeTokenReply;
    tokens_.exchange(caller, request, [this, answer](std::variant<Reply, Refusal> done) {
      if (const auto* reply = std::get_if<Reply>(&done)) {
        agents_.close_outdated_links_of(reply->host());
      }
      answer(std::move(done));
    });
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
  Gate* const gate_;  // null: plaintext
  AdminCalls admin_calls_;
  std::optional<GrpcServer> server_;  // empty after shutdown
  Calls calls_;
  AgentStreams agents_;
  TokenCalls tokens_;
  const int port_;
};

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
