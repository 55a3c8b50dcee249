// Passes calls to the event loop: admitted, for the current job, and answered once.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/one_line.h"
#include "coordinator/coordinator.h"
#include "coordinator/rpc/admission.h"
#include "coordinator/rpc/stream_reactor.h"
#include "coordinator/rpc/unary_reactor.h"
#include "coordinator/sockets/pending_connections.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Thread-safe, except for current(), fits() and the handlers, which run on the event loop.
class Calls {
 public:
  /// Borrows its arguments; `gate` may be null: then every caller is an admin.
  Calls(boost::asio::io_context& loop, Coordinator& coordinator, Gate* gate,
        PendingConnections& pending)
      : loop_(loop), coordinator_(coordinator), pending_(pending), admission_(coordinator, gate) {}

  /// Number of open streams.
  [[nodiscard]] int open_streams() const { return open_streams_; }

  /// Sets `caller` and returns null; or, if the caller is refused, returns the reactor that ends
  /// the stream.
  template <typename In, typename Command>
  grpc::ServerBidiReactor<In, Command>* refuse_stream(const grpc::ServerContextBase& context,
                                                      Caller& caller) {
    auto admitted = admit(context, In::descriptor()->name());
    if (const auto* refusal = std::get_if<Refusal>(&admitted)) {
      return new RefusedStream<In, Command>(to_status(*refusal));
    }
    caller = std::get<Caller>(std::move(admitted));
    return nullptr;
  }

  /// `on_message(link, message)` and `on_closed(link)` are called on the loop.
  template <typename In, typename Command, typename OnMessage, typename OnClosed>
  StreamReactor<In, Command>* open(OnMessage on_message, OnClosed on_closed,
                                   std::function<void(Command&)> sending = {}) {
    open_streams_ += 1;
    const auto message = [on_message](auto& link, const In& said) {
      try {
        on_message(link, said);
      } catch (const std::exception& error) {
        link.close(unexpected(error));
      }
    };
    const auto closed = [this, on_closed](auto& link) {
      on_closed(link);
      open_streams_ -= 1;
    };
    return new StreamReactor<In, Command>(
        loop_, {.message = message, .closed = closed, .sending = std::move(sending)});
  }

  /// Returns whether the request is for this job, and for its generation if it names one. Requests
  /// without a field job_id are always accepted. A request to drain a host may have an empty job_id
  /// if no job is running.
  template <typename Request>
  bool current(const Request& request, Refusal& why) {
    const Fence fence = coordinator_.fence();
    if constexpr (std::is_same_v<Request, proto::DrainRequest>) {
      if (request.job_id().empty() && fence.job_id.empty()) return true;
    }
    if constexpr (requires { request.generation(); }) {
      return admitted({.job_id = request.job_id(), .generation = request.generation()}, fence, why);
    } else if constexpr (requires { request.job_id(); }) {
      return of_this_job(request.job_id(), fence, why);
    } else {
      return true;
    }
  }

  /// Returns whether the request fits the caller (Admission::fits()).
  template <typename Request>
  bool fits(const Caller& caller, const Request& request, Refusal& why) {
    return admission_.fits(caller, request, why);
  }

  /// Handles a unary call on the loop with a member function of `object`, if the call is admitted
  /// and is for the current job. The function has one of the forms in invoke(). The request is
  /// valid until the function answers or returns, whichever is first.
  template <typename Request, typename Reply, typename Object, typename Member>
  grpc::ServerUnaryReactor* handle(grpc::CallbackServerContext* context, const Request* request,
                                   Reply* reply, Object& object, Member member) {
    auto* const reactor = new UnaryReactor(loop_);
    const auto end = reactor->end();  // the reactor may be gone when the loop handles the call
    auto caller = admit(*context, Request::descriptor()->name());
    if (const auto* refusal = std::get_if<Refusal>(&caller)) {
      end->take()->Finish(to_status(*refusal));
      return reactor;
    }
    // Unknown fields would use memory for as long as the request. The cast is safe: gRPC made the
    // request for this call, and only the parameter is const.
    const_cast<Request*>(request)->DiscardUnknownFields();
    const Patience patience(deadline_of(*context), [end] { return end->is_over(); });
    boost::asio::post(
        loop_, [this, end, request, reply, patience, handler = std::bind_front(member, &object),
                from = std::get<Caller>(std::move(caller))] {
          const Answer<Reply> answer = answer_of(end, reply, from.peer);
          Refusal why;
          if (!current(*request, why) || !fits(from, *request, why)) return answer(why);
          try {
            invoke(handler, from, *request, answer, patience);
          } catch (const std::exception& error) {
            answer(unexpected(error));
          }
        });
    return reactor;
  }

 private:
  /// An unexpected error in one request must not end the job.
  static Refusal unexpected(const std::exception& error) {
    return {.kind = Refusal::Kind::kInternal, .message = one_line(error.what())};
  }

  template <typename Handler, typename Request, typename Reply>
  static void invoke(const Handler& handler, const Caller& caller, const Request& request,
                     const Answer<Reply>& answer, const Patience& patience) {
    using A = const Answer<Reply>&;
    if constexpr (std::is_invocable_v<Handler, const Request&, A, const Patience&>) {
      handler(request, answer, patience);
    } else if constexpr (std::is_invocable_v<Handler, const Caller&, const Request&, A>) {
      handler(caller, request, answer);
    } else if constexpr (std::is_invocable_v<Handler, const Request&, A>) {
      handler(request, answer);
    } else {
      answer(handler());
    }
  }

  static TimePoint deadline_of(const grpc::ServerContextBase& context) {
    constexpr std::chrono::hours kLongest{24};
    const auto left = context.deadline() - std::chrono::system_clock::now();
    return left > kLongest ? TimePoint::max()
                           : Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
  }

  std::variant<Caller, Refusal> admit(const grpc::ServerContextBase& context,
                                      const std::string& request) {
    auto caller = admission_.admit(context, request);
    const auto* const known = std::get_if<Caller>(&caller);
    if (known != nullptr && known->identity.role != Role::kNobody) pending_.known(known->peer);
    return caller;
  }

  /// Returns a callback that sends the first answer, or refuses if too many bytes are unread.
  template <typename Reply>
  Answer<Reply> answer_of(const std::shared_ptr<UnaryReactor::End>& end, Reply* reply,
                          const std::string& peer) {
    return [this, end, reply, peer](std::variant<Reply, Refusal> result) {
      UnaryReactor* const call = end->take();
      if (call == nullptr) return;
      if (const auto* refusal = std::get_if<Refusal>(&result)) {
        return call->Finish(to_status(*refusal));
      }
      const std::size_t bytes = std::get<Reply>(result).ByteSizeLong();
      if (!admission_.may_send(peer, bytes)) {
        return call->Finish(
            to_status(Admission::too_many("bytes that were requested and not read")));
      }
      call->when_done([this, peer, bytes] { admission_.sent(peer, bytes); });
      *reply = std::get<Reply>(std::move(result));
      call->Finish(grpc::Status::OK);
    };
  }

  boost::asio::io_context& loop_;
  Coordinator& coordinator_;
  PendingConnections& pending_;
  Admission admission_;
  std::atomic<int> open_streams_{0};
};

}  // namespace pfc
