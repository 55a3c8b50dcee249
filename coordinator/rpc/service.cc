#include "coordinator/rpc/service.h"

#include <grpcpp/server_builder.h>

#include <boost/asio/executor_work_guard.hpp>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "common/error.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "coordinator/net/listener.h"
#include "coordinator/net/tls_filter.h"
#include "coordinator/rpc/admission.h"
#include "coordinator/rpc/stream_reactor.h"
#include "coordinator/rpc/token_calls.h"
#include "coordinator/rpc/unary_reactor.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_runtime.h"
#include "security/private_key.h"

namespace pfc {
namespace {

using boost::asio::post;

constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kIdleMilliseconds = 30'000;
constexpr int kHeldBack = 4;  // descriptors for the coordinator's own files

/// One request that went wrong in a way that nobody has thought of does not end the job.
Refusal unexpected(const std::exception& error) {
  return {.kind = Refusal::Kind::kInternal, .message = one_line(error.what())};
}

/// Logs may be of a job that has ended, and a network is no job's.
bool is_of_any_job(const proto::AgentMessage& message) {
  return message.has_heartbeat() || message.has_log_chunk() || message.has_network();
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
    case Refusal::Kind::kDenied:
      return {grpc::StatusCode::PERMISSION_DENIED, refusal.message};
    case Refusal::Kind::kInternal:
      break;
  }
  return {grpc::StatusCode::INTERNAL, refusal.message};
}

class Service::Adapter final : public proto::CoordinatorService::CallbackService {
 public:
  Adapter(boost::asio::io_context& loop, Coordinator& coordinator, const ServiceOptions& options)
      : loop_(loop),
        coordinator_(coordinator),
        gate_(options.gate),
        admission_(coordinator, options.gate),
        filter_(
            loop, [this](int fd) { serve(fd); },
            [this](const std::string& peer) { refuse_plaintext(peer); }),
        listener_(loop,
                  {.address = options.address,
                   .port = options.port,
                   .flag = "--port",
                   .held_back = kHeldBack},
                  [this](int fd) { accepted(fd); }),
        tokens_(coordinator, options.gate,
                join_host_port(options.reachable.empty() ? options.address : options.reachable,
                               listener_.port())) {
    set_up_grpc();
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kClientKeepaliveMilliseconds / 2);
    // Any number: after a link was cut, what was held up arrives at once.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMilliseconds);
    // Otherwise every message is followed by a ping that measures the link, which carries little.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveMilliseconds);
    // A connection that asks for nothing holds a descriptor. Agents and workers always have a call.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostConcurrentCalls);
    builder.SetMaxReceiveMessageSize(kMostMessageBytes);
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_) throw std::runtime_error("gRPC cannot start its server");
  }

  int port() const { return listener_.port(); }

  /// Returns false when that cannot be done because no thread can be started.
  bool shut_down() {
    if (!server_) return true;
    listener_.close();
    filter_.close();
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
    // Shared by the callbacks below.
    const auto session = std::make_shared<AgentSession>();
    auto refused = admit_stream<proto::AgentMessage, proto::AgentCommand>(*context, *session);
    if (refused != nullptr) return refused;
    return open<proto::AgentMessage, proto::AgentCommand>(
        [this, session](AgentLink& link, const proto::AgentMessage& message) {
          Refusal why;
          if (!session->host) {
            register_agent(message, *session, link);
          } else if (is_of_any_job(message) || current(message, why)) {
            // Not what it still has to tell of another job's workers.
            coordinator_.agent_said(*session->host, message);
          }
        },
        [this, session](AgentLink& link) {
          links_.erase(&link);
          if (session->host) coordinator_.agent_link_closed(*session->host, link);
        },
        [this, session](proto::AgentCommand& command) { add_certificate(*session, command); });
  }

  grpc::ServerBidiReactor<proto::WorkerMessage, proto::WorkerCommand>* AttachWorker(
      grpc::CallbackServerContext* context) override {
    const auto caller = std::make_shared<Session>();  // shared by the callbacks below
    auto refused = admit_stream<proto::WorkerMessage, proto::WorkerCommand>(*context, *caller);
    if (refused != nullptr) return refused;
    auto rank = std::make_shared<std::optional<Rank>>();  // shared by the two callbacks below
    return open<proto::WorkerMessage, proto::WorkerCommand>(
        [this, rank, caller](WorkerLink& link, const proto::WorkerMessage& message) {
          Refusal why;
          if (!current(message, why) || !admission_.fits(caller->caller, message, why))
            return link.close(why);
          if (!*rank) {
            if (!coordinator_.attach_worker(message.rank(), link)) {
              return link.close({.message = "there is no rank " + std::to_string(message.rank())});
            }
            *rank = message.rank();
          }
          if (**rank != message.rank()) {
            return link.close({.kind = Refusal::Kind::kInvalid,
                               .message = "the stream is of rank " + std::to_string(**rank) +
                                          ", and its message of rank " +
                                          std::to_string(message.rank())});
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

  grpc::ServerUnaryReactor* GetValues(grpc::CallbackServerContext* context,
                                      const proto::GetValuesRequest* request,
                                      proto::GetValuesReply* reply) override {
    return handle<proto::GetValuesReply>(context, request, reply, [this, request](auto answer) {
      coordinator_.get_values(*request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const proto::StatusRequest* request,
                                   proto::StatusReply* reply) override {
    return handle<proto::StatusReply>(context, request, reply,
                                      [this](auto answer) { answer(coordinator_.status()); });
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const proto::DrainRequest* request,
                                  proto::DrainReply* reply) override {
    return handle<proto::DrainReply>(
        context, request, reply, [this, request](auto answer, const Caller& caller) {
          if (gate_ != nullptr) gate_->note(caller, "drain", request->host());
          // gRPC frees the request with the answer, and the stop may end this server before it.
          const proto::DrainRequest asked = *request;
          if (!coordinator_.has_host(asked.host())) {
            return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                                  .message = "there is no host " + one_line(asked.host(), 64) +
                                             "; expected one that pfcctl status lists"});
          }
          answer(proto::DrainReply());
          coordinator_.drain(asked.host(), asked.leaving());
        });
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const proto::StopRequest* request,
                                 proto::StopReply* reply) override {
    return handle<proto::StopReply>(context, request, reply,
                                    [this, request](auto answer, const Caller& caller) {
                                      if (gate_ != nullptr)
                                        gate_->note(caller, "stop", request->reason());
                                      coordinator_.stop_job(*request, answer);
                                    });
  }

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const proto::SubmitRequest* request,
                                   proto::SubmitReply* reply) override {
    return handle<proto::SubmitReply>(context, request, reply,
                                      [this, request](auto answer, const Caller& caller) {
                                        if (gate_ != nullptr)
                                          gate_->note(caller, "submit", request->file());
                                        coordinator_.submit(*request, answer);
                                      });
  }

  grpc::ServerUnaryReactor* Queue(grpc::CallbackServerContext* context,
                                  const proto::QueueRequest* request,
                                  proto::QueueReply* reply) override {
    return handle<proto::QueueReply>(context, request, reply, [this](auto answer, const Caller&) {
      answer(coordinator_.queue());
    });
  }

  grpc::ServerUnaryReactor* Logs(grpc::CallbackServerContext* context,
                                 const proto::LogsRequest* request,
                                 proto::LogsReply* reply) override {
    return handle<proto::LogsReply>(
        context, request, reply,
        [this, request](auto answer, const Caller&) { coordinator_.read_log(*request, answer); });
  }

  grpc::ServerUnaryReactor* ExchangeToken(grpc::CallbackServerContext* context,
                                          const proto::ExchangeTokenRequest* request,
                                          proto::ExchangeTokenReply* reply) override {
    return handle<proto::ExchangeTokenReply>(
        context, request, reply,
        [this, request](auto answer, const Caller& caller) { exchange(caller, *request, answer); });
  }

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const proto::CreateTokenRequest* request,
                                        proto::CreateTokenReply* reply) override {
    return handle<proto::CreateTokenReply>(context, request, reply,
                                           [this, request](auto answer, const Caller& caller) {
                                             tokens_.create(caller, *request, answer);
                                           });
  }

  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const proto::ListTokensRequest* request,
                                       proto::ListTokensReply* reply) override {
    return handle<proto::ListTokensReply>(context, request, reply,
                                          [this](auto answer) { tokens_.list(answer); });
  }

  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const proto::RevokeTokenRequest* request,
                                        proto::RevokeTokenReply* reply) override {
    using Reply = proto::RevokeTokenReply;
    return handle<Reply>(
        context, request, reply, [this, request](Answer<Reply> answer, const Caller& caller) {
          const std::string host = request->host();
          tokens_.revoke(caller, *request, [this, host, answer](std::variant<Reply, Refusal> done) {
            if (std::holds_alternative<Reply>(done)) close_outdated_links_of(host);
            answer(std::move(done));
          });
        });
  }

 private:
  /// Who is at the other side of a stream.
  struct Session {
    Caller caller;
  };
  struct AgentSession : Session {
    std::optional<std::string> host;  ///< that it has registered
    std::string certificate_request;  ///< for its workers
    std::string job;                  ///< that `certificate` is for
    std::string certificate;          ///< of its workers
  };

  std::shared_ptr<grpc::ServerCredentials> credentials() const {
    if (gate_ == nullptr) return grpc::InsecureServerCredentials();
    const Credential& own = gate_->server();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own.authority;
    options.pem_key_cert_pairs = {{.private_key = own.key, .cert_chain = own.certificate}};
    return grpc::SslServerCredentials(options);
  }

  void accepted(int fd) {
    if (gate_ == nullptr) return serve(fd);
    filter_.look(listener_.protocol(), fd);
  }

  void refuse_plaintext(const std::string& peer) {
    static_cast<void>(
        gate_->refuse({.peer = peer}, "connect", "plaintext", "the connection was not TLS"));
  }

  /// Fills in who calls. Where that one may not, returns what ends the stream.
  template <typename In, typename Command>
  grpc::ServerBidiReactor<In, Command>* admit_stream(const grpc::ServerContextBase& context,
                                                     Session& session) {
    auto admitted = admission_.admit(context, In::descriptor()->name());
    if (const auto* refusal = std::get_if<Refusal>(&admitted)) {
      return new RefusedStream<In, Command>(to_status(*refusal));
    }
    session.caller = std::get<Caller>(std::move(admitted));
    return nullptr;
  }

  /// Tells an agent the certificate of its workers together with what it is to run.
  void add_certificate(AgentSession& session, proto::AgentCommand& command) {
    if (gate_ == nullptr || !command.has_desired() || session.certificate_request.empty()) return;
    try {
      if (session.job != command.job_id()) {
        session.certificate = gate_->worker_certificate(session.caller, command.job_id(),
                                                        session.certificate_request);
        session.job = command.job_id();
      }
      command.mutable_desired()->set_worker_certificate(session.certificate);
    } catch (const std::exception& error) {
      // The coordinator, which sends this, has nothing to do with it: the agent's stream ends.
      const std::string why =
          "no certificate can be made for its workers: " + one_line(error.what());
      post(loop_, [this, host = session.caller.identity.host, why] {
        close_links_of(host, {.kind = Refusal::Kind::kInternal, .message = why});
      });
    }
  }

  void close_links_of(const std::string& host, const Refusal& why) {
    for (const auto& [link, caller] : std::map(links_)) {
      if (caller.identity.host == host) link->close(why);
    }
  }

  /// Soon, where their certificate is not valid any more. Thread-safe.
  void close_outdated_links_of(const std::string& host) {
    post(loop_, [this, host] {
      for (const auto& [link, caller] : std::map(links_)) {
        if (caller.identity.host != host) continue;
        const auto denial = gate_->outdated(caller);
        if (denial) link->close({.kind = Refusal::Kind::kDenied, .message = denial->message});
      }
    });
  }

  /// The new certificate may replace that of an open stream.
  void exchange(const Caller& caller, const proto::ExchangeTokenRequest& request,
                const Answer<proto::ExchangeTokenReply>& answer) {
    using Reply = proto::ExchangeTokenReply;
    tokens_.exchange(caller, request, [this, answer](std::variant<Reply, Refusal> done) {
      if (const auto* reply = std::get_if<Reply>(&done)) close_outdated_links_of(reply->host());
      answer(std::move(done));
    });
  }

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

  /// Handles a unary call on the loop, if its caller may make it and it belongs to the job.
  /// `handler` takes the answer, and the caller where it wants to know it.
  template <typename Reply, typename Request, typename Handler>
  grpc::ServerUnaryReactor* handle(grpc::CallbackServerContext* context, const Request* request,
                                   Reply* reply, Handler handler) {
    auto* const reactor = new UnaryReactor;
    auto admitted = admission_.admit(*context, Request::descriptor()->name());
    if (const auto* refusal = std::get_if<Refusal>(&admitted)) {
      reactor->Finish(to_status(*refusal));
      return reactor;
    }
    post(loop_,
         [this, reactor, request, reply, handler, caller = std::get<Caller>(std::move(admitted))] {
           Answer<Reply> answer = answer_of(*reactor, reply, caller.peer);
           Refusal why;
           if (!current(*request, why) || !admission_.fits(caller, *request, why)) {
             return answer(why);
           }
           try {
             if constexpr (std::is_invocable_v<Handler, Answer<Reply>, Caller>) {
               handler(answer, caller);
             } else {
               handler(answer);
             }
           } catch (const std::exception& error) {
             answer(unexpected(error));
           }
         });
    return reactor;
  }

  /// Sends the first answer. Too many bytes that this peer does not read are refused instead.
  template <typename Reply>
  Answer<Reply> answer_of(UnaryReactor& reactor, Reply* reply, const std::string& peer) {
    const auto answered = std::make_shared<bool>(false);  // shared by the copies of the answer
    return [this, &reactor, reply, answered, peer](std::variant<Reply, Refusal> result) {
      if (std::exchange(*answered, true)) return;
      if (const auto* refusal = std::get_if<Refusal>(&result)) {
        return reactor.Finish(to_status(*refusal));
      }
      const std::size_t bytes = std::get<Reply>(result).ByteSizeLong();
      if (!admission_.may_send(peer, bytes)) {
        return reactor.Finish(
            to_status(Admission::too_many("bytes that were asked for and not read")));
      }
      reactor.when_done([this, peer, bytes] { admission_.sent(peer, bytes); });
      *reply = std::get<Reply>(std::move(result));
      reactor.Finish(grpc::Status::OK);
    };
  }

  template <typename In, typename Command, typename OnMessage, typename OnClosed>
  StreamReactor<In, Command>* open(OnMessage on_message, OnClosed on_closed,
                                   std::function<void(Command&)> sending = {}) {
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
                                                      },
                                                  .sending = std::move(sending)});
  }

  /// Why this agent may not register; none: the coordinator decides.
  std::optional<Refusal> refusal_of(const proto::AgentRegistration& registration,
                                    const Caller& caller) {
    if (gate_ == nullptr) return {};
    if (registration.host() != caller.identity.host) {
      return gate_->refuse(caller, "register", "wrong_host",
                           "the certificate is of host " + caller.identity.host +
                               ", and the agent says that it is on " +
                               one_line(registration.host()));
    }
    // The stream may be older than the end of its certificate.
    if (const auto denial = gate_->outdated(caller)) {
      return gate_->refuse(caller, "register", denial->code, denial->message);
    }
    if (registration.worker_certificate_request().empty()) return {};
    try {
      static_cast<void>(key_of_request(registration.worker_certificate_request()));
    } catch (const InputError& error) {
      Refusal refusal =
          gate_->refuse(caller, "register", "bad_request",
                        "of the workers of host " + registration.host() + ": " + error.what());
      refusal.kind = Refusal::Kind::kInvalid;
      return refusal;
    }
    return {};
  }

  /// Fills in the session, or closes the link.
  void register_agent(const proto::AgentMessage& message, AgentSession& session, AgentLink& link) {
    if (!message.has_registration()) {
      return link.close({.message = "an agent's first message must register it"});
    }
    const proto::AgentRegistration& registration = message.registration();
    const Caller& caller = session.caller;
    if (const auto refusal = refusal_of(registration, caller)) return link.close(*refusal);
    session.certificate_request = registration.worker_certificate_request();
    // Before the coordinator knows the link: whatever goes wrong then, it is told of the link's
    // end.
    const std::string peer = address_of_peer(caller.peer);
    session.host = coordinator_.listed_host(registration.host(), peer);
    links_[&link] = caller;
    const auto result = coordinator_.register_agent(registration, peer, link);
    if (const auto* refusal = std::get_if<Refusal>(&result)) {
      if (gate_ != nullptr) {
        static_cast<void>(gate_->refuse(caller, "register", "not_wanted", refusal->message));
      }
      return link.close(*refusal);
    }
    if (gate_ != nullptr) gate_->note(caller, "register", "host " + *session.host);
  }

  /// gRPC's own listener stops for ever when no descriptor is left for a connection.
  void serve(int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    connections_->HandleNewConnection(&connection);
  }

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  Gate* const gate_;  // null: plaintext
  Admission admission_;
  std::map<AgentLink*, Caller> links_;  // who is at the other side of each agent's stream
  std::atomic<int> open_streams_{0};
  TlsFilter filter_;
  Listener listener_;
  TokenCalls tokens_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

Service::Service(boost::asio::io_context& loop, Coordinator& coordinator,
                 const ServiceOptions& options)
    : adapter_(std::make_unique<Adapter>(loop, coordinator, options)) {}

Service::~Service() { shut_down(); }

int Service::port() const { return adapter_->port(); }

bool Service::shut_down() {
  if (adapter_ == nullptr || adapter_->shut_down()) return true;
  static_cast<void>(adapter_.release());  // gRPC's threads go on using it
  return false;
}

}  // namespace pfc
