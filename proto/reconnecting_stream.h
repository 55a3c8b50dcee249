// A bidirectional gRPC stream to the coordinator that reconnects when it breaks.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/error_text.h"
#include "proto/channel.h"

namespace pfc {

/// Owns a thread that opens the stream, writes the messages of hello(), then those of take():
/// immediately after wake(), otherwise once per heartbeat. If the stream breaks, the thread pauses
/// and opens it again. The server replies to hello() with a message, which shows that it has
/// accepted the connection. Callbacks run on the stream's threads. Calls of one callback never
/// overlap. REQUIRES: no callback destroys the object.
template <typename Out, typename In>
class ReconnectingStream {
 public:
  using Stream = grpc::ClientReaderWriterInterface<Out, In>;
  struct Options {
    std::shared_ptr<grpc::Channel> channel;  ///< used by open(); shared with the caller's stub
    std::function<std::unique_ptr<Stream>(grpc::ClientContext*)> open;
    std::function<std::vector<Out>()> hello;  ///< the first messages of every connection
    std::function<std::vector<Out>()> take;   ///< messages to write now; at least a heartbeat
    std::function<void(const In&)> received;
    /// Called when there has been no connection for `silence`. Returns whether to retry.
    std::function<bool(const grpc::Status&, std::chrono::milliseconds silence)> lost;
    std::chrono::milliseconds heartbeat{1'000};
    std::chrono::milliseconds first_backoff{100};
    std::chrono::milliseconds max_backoff{2'000};  ///< used if a server refuses the stream
  };

  explicit ReconnectingStream(Options options)
      : options_(std::move(options)), thread_([this] { keep_connected(); }) {}

  ~ReconnectingStream() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    thread_.join();
  }

  ReconnectingStream(const ReconnectingStream&) = delete;
  ReconnectingStream& operator=(const ReconnectingStream&) = delete;

  /// Makes the thread call take() soon. Call it when there are new messages.
  void wake() {
    {
      std::lock_guard lock(mutex_);
      awake_ = true;
    }
    changed_.notify_all();
  }

 private:
  using Now = std::chrono::steady_clock;

  void keep_connected() {
    auto backoff = options_.first_backoff;
    auto last_alive = Now::now();
    while (true) {
      bool heard = false;
      const grpc::Status status = run_once(heard);
      if (heard) {
        last_alive = Now::now();
        backoff = options_.first_backoff;
      }
      if (is_stopping()) return;
      const auto silence =
          std::chrono::duration_cast<std::chrono::milliseconds>(Now::now() - last_alive);
      if (!options_.lost(status, silence)) return;
      pause(backoff);
      if (is_stopping()) return;
      backoff = std::min(2 * backoff, options_.max_backoff);
    }
  }

  /// Waits before the next attempt. If the link is down, the wait ends as soon as it is back. If a
  /// server is reachable and refused the stream, the wait is `longest`.
  void pause(std::chrono::milliseconds longest) {
    const bool refused = options_.channel->GetState(false) == GRPC_CHANNEL_READY;
    const auto first = refused ? longest : options_.first_backoff;
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, first, [this] { return stopping_; })) return;
    }
    if (!refused) wait_for_connection(*options_.channel, longest, [this] { return is_stopping(); });
  }

  /// Runs one connection from start to end. Sets `heard` if the server sent a message.
  grpc::Status run_once(bool& heard) {
    grpc::ClientContext context;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return grpc::Status::CANCELLED;
      context_ = &context;
      broken_ = false;
    }
    const std::unique_ptr<Stream> stream = options_.open(&context);
    const grpc::Status started = talk(*stream, context, heard);
    const grpc::Status ended = stream->Finish();
    std::lock_guard lock(mutex_);
    context_ = nullptr;
    return started.ok() ? ended : started;
  }

  /// Reads and writes until the stream ends. Returns an error if the reader thread cannot start.
  grpc::Status talk(Stream& stream, grpc::ClientContext& context, bool& heard) {
    std::thread reader;
    try {
      reader = std::thread([&] { read(stream, heard); });
    } catch (const std::system_error& error) {
      context.TryCancel();
      return {grpc::StatusCode::UNAVAILABLE, text_of(error)};
    }
    write(stream);
    // If the server has ended the stream, do not cancel, so that the server's status is kept.
    if (!is_broken()) context.TryCancel();
    reader.join();
    return grpc::Status::OK;
  }

  void read(Stream& stream, bool& heard) {
    In message;
    while (stream.Read(&message)) {
      heard = true;
      options_.received(message);
    }
    {
      std::lock_guard lock(mutex_);
      broken_ = true;
    }
    changed_.notify_all();
  }

  void write(Stream& stream) {
    std::vector<Out> messages = options_.hello();
    while (true) {
      for (const Out& message : messages) {
        if (!stream.Write(message)) return wait_for_reader();
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, options_.heartbeat,
                        [this] { return stopping_ || broken_ || awake_; });
      if (stopping_ || broken_) return;
      awake_ = false;
      lock.unlock();
      messages = options_.take();
    }
  }

  bool is_stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  bool is_broken() {
    std::lock_guard lock(mutex_);
    return broken_;
  }

  /// Waits for the reader after a failed write. Does not cancel, to keep the status.
  void wait_for_reader() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || broken_; });
  }

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  grpc::ClientContext* context_ = nullptr;  // guarded by mutex_; of the open connection
  bool stopping_ = false;                   // guarded by mutex_
  bool broken_ = false;                     // guarded by mutex_
  bool awake_ = false;                      // guarded by mutex_
  std::thread thread_;                      // last: uses all members above
};

}  // namespace pfc
