#include "coordinator/rpc/service.h"

#include <grpcpp/server_builder.h>

#include <boost/asio/executor_work_guard.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "common/one_line.h"
#include "coordinator/net/listener.h"
#include "coordinator/rpc/stream_reactor.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc {
namespace {

using boost::asio::post;

constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kHeldBack = 4;  // descriptors for the coordinator's own files

/// "ipv4:10.0.0.2:4711" -> "10.0.0.2"
std::string address_of(const std::string& peer) {
  const std::size_t begin = peer.find(':');
  const std::size_t end = peer.rfind(':');
  if (begin == std::string::npos || end <= begin) return peer;
  return peer.substr(begin + 1, end - begin - 1);
}

/// One request that went wrong in a way that nobody has thought of does not end the job.
Refusal unexpected(const std::exception& error) {
  return {.kind = Refusal::Kind::kInternal, .message = one_line(error.what())};
}

}  // namespace

grpc::Status to_status(const Refusal& refusal) {
  switch (refusal.kind) {
    case Refusal::Kind::kOldGeneration:
      return {grpc::StatusCode::FAILED_PRECONDITION, refusal.message};
    case Refusal::Kind::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, refusal.message};
    case Refusal::Kind::kTimeout:
      return {grpc::StatusCode::DEADLINE_EXCEEDED, refusal.message};
    case Refusal::Kind::kUnavailable:
      return {grpc::StatusCode::UNAVAILABLE, refusal.message};
    case Refusal::Kind::kInternal:
      break;
  }
  return {grpc::StatusCode::INTERNAL, refusal.message};
}

class Service::Adapter final : public proto::CoordinatorService::CallbackService {
 public:
  Adapter(boost::asio::io_context& loop, Coordinator& coordinator, const std::string& address,
          int port)
      : loop_(loop),
        coordinator_(coordinator),
        listener_(loop,
                  {.address = address, .port = port, .flag = "--port", .held_back = kHeldBack},
                  [this](int fd) { serve(fd); }) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kClientKeepaliveMilliseconds / 2);
    // Any number: after a link was cut, what was held up arrives at once.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveMilliseconds);
    // A connection that asks for nothing holds a descriptor.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_) throw std::runtime_error("gRPC cannot start its server");
  }

  int port() const { return listener_.port(); }

  /// Returns false when that cannot be done because no thread can be started.
  bool shut_down() {
    if (!server_) return true;
    listener_.close();
    coordinator_.close();
    bool closed = false;
    const auto work = boost::asio::make_work_guard(loop_);
    loop_.restart();
    // Shutdown() waits for calls that end on the loop, so it must run on another thread.
    std::thread closer;
    try {
      closer = std::thread([&] {
        server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds{2});
        server_->Wait();
        post(loop_, [&] { closed = true; });
      });
    } catch (const std::system_error&) {
      return false;
    }
    while (!closed || open_streams_ > 0) run_one();
    closer.join();
    server_.reset();
    return true;
  }

  grpc::ServerBidiReactor<proto::AgentMessage, proto::AgentCommand>* AttachAgent(
      grpc::CallbackServerContext* context) override {
    struct Session {
      std::optional<std::string> host;
    };
    auto session = std::make_shared<Session>();  // shared by the two callbacks below
    const std::string peer = address_of(context->peer());
    return open<proto::AgentMessage, proto::AgentCommand>(
        [this, session, peer](AgentLink& link, const proto::AgentMessage& message) {
          Refusal why;
          if (!session->host) {
            session->host = register_agent(message, peer, link);
          } else if (message.has_heartbeat() || current(message, why)) {
            // Not what it still has to tell of another job's workers.
            coordinator_.agent_said(*session->host, message);
          }
        },
        [this, session](AgentLink& link) {
          if (session->host) coordinator_.agent_link_closed(*session->host, link);
        });
  }

  grpc::ServerBidiReactor<proto::WorkerMessage, proto::WorkerCommand>* AttachWorker(
      grpc::CallbackServerContext*) override {
    auto rank = std::make_shared<std::optional<Rank>>();  // shared by the two callbacks below
    return open<proto::WorkerMessage, proto::WorkerCommand>(
        [this, rank](WorkerLink& link, const proto::WorkerMessage& message) {
          Refusal why;
          if (!current(message, why)) return link.close(why);
          if (!*rank) {
            if (!coordinator_.attach_worker(message.rank(), link)) {
              return link.close({.message = "there is no rank " + std::to_string(message.rank())});
            }
            *rank = message.rank();
          }
          coordinator_.worker_said(message);
        },
        [this, rank](WorkerLink& link) {
          if (*rank) coordinator_.worker_link_closed(**rank, link);
        });
  }

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const proto::JoinRequest* request,
                                 proto::JoinReply* reply) override {
    return handle<proto::JoinReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.join(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context,
                                   const proto::FinishRequest* request,
                                   proto::FinishReply* reply) override {
    return handle<proto::FinishReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.finish(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* SetValue(grpc::CallbackServerContext* context,
                                     const proto::SetValueRequest* request,
                                     proto::SetValueReply* reply) override {
    return handle<proto::SetValueReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.set_value(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* GetValue(grpc::CallbackServerContext* context,
                                     const proto::GetValueRequest* request,
                                     proto::GetValueReply* reply) override {
    return handle<proto::GetValueReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.get_value(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const proto::StatusRequest* request,
                                   proto::StatusReply* reply) override {
    return handle<proto::StatusReply>(context, request, reply,
                                      [this](auto answer) { answer(coordinator_.status()); });
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const proto::StopRequest* request,
                                 proto::StopReply* reply) override {
    return handle<proto::StopReply>(context, request, reply, [this, request](auto answer) {
      // gRPC frees the request with the answer, and the stop may end this server before it.
      const std::string reason = request->reason();
      const bool urgent = request->urgent();
      answer(proto::StopReply());
      coordinator_.stop(reason, urgent);
    });
  }

 private:
  /// What a handler throws must not keep the service from closing. Nothing depends on it any more.
  void run_one() {
    try {
      loop_.run_one();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  /// Whether the request belongs to the job, and to the current generation where it names one. A
  /// type of request without a job_id may come from anybody.
  template <typename Request>
  bool current(const Request& request, Refusal& why) {
    const Fence fence = coordinator_.fence();
    if constexpr (requires { request.generation(); }) {
      return admitted({.job_id = request.job_id(), .generation = request.generation()}, fence, why);
    } else if constexpr (requires { request.job_id(); }) {
      return of_this_job(request.job_id(), fence, why);
    } else {
      return true;
    }
  }

  /// Handles a unary call on the loop, if it belongs to the job.
  template <typename Reply, typename Request, typename Handler>
  grpc::ServerUnaryReactor* handle(grpc::CallbackServerContext* context, const Request* request,
                                   Reply* reply, Handler handler) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    post(loop_, [this, reactor, request, reply, handler] {
      const auto answered = std::make_shared<bool>(false);  // shared by the copies of the answer
      Answer<Reply> answer = [reactor, reply, answered](std::variant<Reply, Refusal> result) {
        if (std::exchange(*answered, true)) return;
        if (const auto* refusal = std::get_if<Refusal>(&result)) {
          return reactor->Finish(to_status(*refusal));
        }
        *reply = std::get<Reply>(std::move(result));
        reactor->Finish(grpc::Status::OK);
      };
      Refusal why;
      if (!current(*request, why)) return answer(why);
      try {
        handler(answer);
      } catch (const std::exception& error) {
        answer(unexpected(error));
      }
    });
    return reactor;
  }

  template <typename In, typename Command, typename OnMessage, typename OnClosed>
  StreamReactor<In, Command>* open(OnMessage on_message, OnClosed on_closed) {
    open_streams_ += 1;
    return new StreamReactor<In, Command>(loop_, {.message =
                                                      [on_message](auto& link, const In& message) {
                                                        try {
                                                          on_message(link, message);
                                                        } catch (const std::exception& error) {
                                                          link.close(unexpected(error));
                                                        }
                                                      },
                                                  .closed =
                                                      [this, on_closed](auto& link) {
                                                        on_closed(link);
                                                        open_streams_ -= 1;
                                                      }});
  }

  std::optional<std::string> register_agent(const proto::AgentMessage& message,
                                            const std::string& peer, AgentLink& link) {
    if (!message.has_registration()) {
      link.close({.message = "an agent's first message must register it"});
      return {};
    }
    auto result = coordinator_.register_agent(message.registration(), peer, link);
    if (const auto* refusal = std::get_if<Refusal>(&result)) {
      link.close(*refusal);
      return {};
    }
    return std::get<Coordinator::Registered>(result).host;
  }

  /// gRPC's own listener stops for ever when no descriptor is left for a connection.
  void serve(int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    connections_->HandleNewConnection(&connection);
  }

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  std::atomic<int> open_streams_{0};
  Listener listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

Service::Service(boost::asio::io_context& loop, Coordinator& coordinator,
                 const std::string& address, int port)
    : adapter_(std::make_unique<Adapter>(loop, coordinator, address, port)) {}

Service::~Service() { shut_down(); }

int Service::port() const { return adapter_->port(); }

bool Service::shut_down() {
  if (adapter_ == nullptr || adapter_->shut_down()) return true;
  static_cast<void>(adapter_.release());  // gRPC's threads go on using it
  return false;
}

}  // namespace pfc
