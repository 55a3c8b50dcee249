// The coordinator's side of a unary gRPC call, and of a refused stream.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <utility>

namespace pfc {

/// Deletes itself when gRPC has finished the call.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  /// The right to end the call, which the answer and the cancellation share. Whichever comes first
  /// takes it. Thread-safe.
  class End {
   public:
    explicit End(UnaryReactor* reactor) : reactor_(reactor) {}
    /// Returns the call, for its Finish(); null if it is over.
    UnaryReactor* take() { return reactor_.exchange(nullptr); }
    [[nodiscard]] bool is_over() const { return reactor_ == nullptr; }

   private:
    std::atomic<UnaryReactor*> reactor_;
  };

  explicit UnaryReactor(boost::asio::io_context& loop) : loop_(loop) {}

  [[nodiscard]] const std::shared_ptr<End>& end() const { return end_; }

  /// `done` is called once, before the object is deleted, on a gRPC thread.
  void when_done(std::function<void()> done) { done_ = std::move(done); }

  /// Frees the call and its request early if the caller has cancelled. The work is posted to the
  /// loop, so that it runs after the call's handler, which reads the request.
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

/// Ends a stream before it begins.
template <typename In, typename Command>
class RefusedStream final : public grpc::ServerBidiReactor<In, Command> {
 public:
  explicit RefusedStream(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};

}  // namespace pfc
