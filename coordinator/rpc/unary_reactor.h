// The coordinator's side of one unary gRPC call, and of a stream that is refused.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <utility>

namespace pfc {

/// Deletes itself when gRPC has done with the call: the reply has left, or the caller has gone.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  /// The right to end the call, which whoever takes it first has: an answer, or the caller that
  /// gives up. Shared by both. Thread-safe.
  class End {
   public:
    explicit End(UnaryReactor* reactor) : reactor_(reactor) {}
    /// The call, for its Finish(); null: it is over.
    UnaryReactor* take() { return reactor_.exchange(nullptr); }
    [[nodiscard]] bool is_over() const { return reactor_ == nullptr; }

   private:
    std::atomic<UnaryReactor*> reactor_;
  };

  explicit UnaryReactor(boost::asio::io_context& loop) : loop_(loop) {}

  [[nodiscard]] const std::shared_ptr<End>& end() const { return end_; }

  /// Called once, before the object goes, on one of gRPC's threads.
  void when_done(std::function<void()> done) { done_ = std::move(done); }

  /// Gives back what the call holds, its request above all, also where its answer is far off. On
  /// the loop, behind the handler of the call, which reads the request there.
  void OnCancel() override {
    boost::asio::post(loop_, [end = end_] {
      if (UnaryReactor* const call = end->take()) {
        call->Finish({grpc::StatusCode::CANCELLED, "the caller has given up"});
      }
    });
  }

  void OnDone() override {
    if (done_) done_();
    delete this;
  }

 private:
  boost::asio::io_context& loop_;
  const std::shared_ptr<End> end_ = std::make_shared<End>(this);
  std::function<void()> done_;
};

/// Ends a stream before it has begun.
template <typename In, typename Command>
class RefusedStream final : public grpc::ServerBidiReactor<In, Command> {
 public:
  explicit RefusedStream(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};

}  // namespace pfc
