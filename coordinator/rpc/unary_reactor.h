// The coordinator's side of one unary gRPC call, and of a stream that is refused.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

namespace pfc {

/// Deletes itself when gRPC has done with the call: the reply has left, or the caller has gone.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  /// Called once, before the object goes, on one of gRPC's threads.
  void when_done(std::function<void()> done) { done_ = std::move(done); }

  void OnDone() override {
    if (done_) done_();
    delete this;
  }

 private:
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
