// The coordinator's side of a bidirectional gRPC stream, used on the event loop.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <functional>
#include <utility>

#include "coordinator/coordinator.h"

namespace pfc {

grpc::Status to_status(const Refusal& refusal);

/// gRPC calls On...() on its threads; each posts its work to the loop. Everything else is called
/// on the loop. The object deletes itself after calling `closed`.
template <typename In, typename Command>
class StreamReactor : public grpc::ServerBidiReactor<In, Command>, public CommandLink<Command> {
 public:
  struct Handler {
    std::function<void(StreamReactor&, const In&)> message;
    std::function<void(StreamReactor&)> closed;
    std::function<void(Command&)> sending = {};  ///< may modify an outgoing command
  };

  StreamReactor(boost::asio::io_context& loop, Handler handler)
      : loop_(loop), handler_(std::move(handler)) {
    this->StartRead(&incoming_);
  }

  void send(Command command) override {
    if (closing_) return;
    if (handler_.sending) handler_.sending(command);
    outgoing_.push_back(std::move(command));
    if (outgoing_.size() == 1) this->StartWrite(&outgoing_.front());
  }

  /// Ends the stream after all sent commands have been written.
  void close(const Refusal& why) override {
    if (closing_) return;
    closing_ = true;
    why_ = to_status(why);
    if (outgoing_.empty()) this->Finish(why_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      boost::asio::post(loop_, [this] { close({.message = "the peer has closed the stream"}); });
      return;
    }
    // Reads the next message only when this one has been handled. So gRPC slows down a client that
    // sends too fast, and no messages pile up here.
    boost::asio::post(loop_, [this] {
      if (closing_) return;
      handler_.message(*this, incoming_);
      incoming_.Clear();
      if (!closing_) this->StartRead(&incoming_);
    });
  }

  void OnWriteDone(bool ok) override {
    boost::asio::post(loop_, [this, ok] {
      outgoing_.pop_front();
      if (!ok) outgoing_.clear();
      if (!outgoing_.empty()) {
        this->StartWrite(&outgoing_.front());
      } else if (closing_) {
        this->Finish(why_);
      }
    });
  }

  void OnDone() override {
    boost::asio::post(loop_, [this] {
      handler_.closed(*this);
      delete this;
    });
  }

 private:
  boost::asio::io_context& loop_;
  const Handler handler_;
  In incoming_;                   // used by gRPC from StartRead to OnReadDone, then by the loop
  std::deque<Command> outgoing_;  // the first one is being written
  bool closing_ = false;
  grpc::Status why_;
};

}  // namespace pfc
