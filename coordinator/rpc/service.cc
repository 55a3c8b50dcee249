#include "coordinator/rpc/service.h"

#include <grpcpp/server_builder.h>

#include <boost/asio/executor_work_guard.hpp>
#include <optional>
#include <thread>

#include "common/error.h"
#include "coordinator/listening.h"
#include "coordinator/rpc/stream_reactor.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc {
namespace {

using boost::asio::post;

/// "ipv4:10.0.0.2:4711" -> "10.0.0.2"
std::string address_of(const std::string& peer) {
  const std::size_t begin = peer.find(':');
  const std::size_t end = peer.rfind(':');
  if (begin == std::string::npos || end <= begin) return peer;
  return peer.substr(begin + 1, end - begin - 1);
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
  }
  return {grpc::StatusCode::INTERNAL, refusal.message};
}

class Service::Adapter final : public proto::CoordinatorService::CallbackService {
 public:
  Adapter(boost::asio::io_context& loop, Coordinator& coordinator, const std::string& address,
          int port)
      : loop_(loop), coordinator_(coordinator) {
    grpc::ServerBuilder builder;
    // By default gRPC shares a port that is in use, and each of two coordinators gets some calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kKeepaliveMilliseconds / 2);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
    builder.AddListeningPort(address + ":" + std::to_string(port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      // gRPC does not say why.
      throw InputError(cannot_listen(address, port, try_to_listen(address, port), "--port"));
    }
  }

  int port() const { return port_; }

  void shut_down() {
    if (!server_) return;
    coordinator_.close();
    bool closed = false;
    const auto work = boost::asio::make_work_guard(loop_);
    loop_.restart();
    // Shutdown() waits for calls that end on the loop, so it must run on another thread.
    std::thread closer([&] {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds{2});
      server_->Wait();
      post(loop_, [&] { closed = true; });
    });
    while (!closed || open_streams_ > 0) loop_.run_one();
    closer.join();
    server_.reset();
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
          if (!session->host) {
            session->host = register_agent(message, peer, link);
          } else if (current(message, nullptr)) {
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
          if (!current(message, &link)) return;
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
  /// Whether the message comes from the current generation; if not, closes its link.
  template <typename Message, typename LinkType>
  bool current(const Message& message, LinkType link) {
    Refusal why;
    if (admitted(message.generation(), coordinator_.generation(), why)) return true;
    if constexpr (!std::is_null_pointer_v<LinkType>) link->close(why);
    return false;
  }

  /// Handles a unary call of the current generation on the loop.
  template <typename Reply, typename Request, typename Handler>
  grpc::ServerUnaryReactor* handle(grpc::CallbackServerContext* context, const Request* request,
                                   Reply* reply, Handler handler) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    post(loop_, [this, reactor, request, reply, handler] {
      Answer<Reply> answer = [reactor, reply](std::variant<Reply, Refusal> result) {
        if (const auto* refusal = std::get_if<Refusal>(&result)) {
          return reactor->Finish(to_status(*refusal));
        }
        *reply = std::get<Reply>(std::move(result));
        reactor->Finish(grpc::Status::OK);
      };
      Refusal why;
      if (!admitted(request->generation(), coordinator_.generation(), why)) return answer(why);
      handler(std::move(answer));
    });
    return reactor;
  }

  template <typename In, typename Command, typename OnMessage, typename OnClosed>
  StreamReactor<In, Command>* open(OnMessage on_message, OnClosed on_closed) {
    open_streams_ += 1;
    return new StreamReactor<In, Command>(
        loop_,
        {.message = [on_message](auto& link, const In& message) { on_message(link, message); },
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

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  std::atomic<int> open_streams_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Service::Service(boost::asio::io_context& loop, Coordinator& coordinator,
                 const std::string& address, int port)
    : adapter_(std::make_unique<Adapter>(loop, coordinator, address, port)) {}

Service::~Service() { adapter_->shut_down(); }

int Service::port() const { return adapter_->port(); }

void Service::shut_down() { adapter_->shut_down(); }

}  // namespace pfc
