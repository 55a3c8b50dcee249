// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for open
// pages at /: the job's state, at most twice a second.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/web/http_request.h"

namespace pfc {

/// Source of a feed: JSON objects, one line each.
class LiveSource {
 public:
  /// Returns the changes since the last call; empty if none. May repeat content of all().
  virtual std::string changes() = 0;
  /// Returns everything, for a new reader.
  virtual std::string all() = 0;

 protected:
  ~LiveSource() = default;
};

/// Each reader gets everything first, then changes. Both are produced once for all readers. A
/// reader that missed a piece gets everything again, so slow readers need no buffers. Without
/// readers nothing is produced. Used on the event loop only.
class LiveFeed {
 public:
  struct Options {
    std::chrono::milliseconds pause{500};         ///< minimum interval between pieces
    std::chrono::milliseconds heartbeat{10'000};  ///< a comment is sent after this silence
    std::size_t most_readers = 16;
  };

  /// Does not own the source.
  LiveFeed(boost::asio::io_context& loop, Options options, LiveSource& source);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  /// Adds a reader; returns null if there are too many.
  std::shared_ptr<HttpFeed> open();
  /// Sends the current state now, because nothing may follow.
  void flush();

  [[nodiscard]] std::size_t readers() const { return readers_.size(); }

 private:
  class Reader;
  using Piece = std::shared_ptr<const std::string>;

  void tick();
  void drop_those_who_left();
  /// Takes the source's changes, and makes the next event from them.
  void look();
  [[nodiscard]] std::string event(const std::string& json) const;
  [[nodiscard]] Piece everything();

  boost::asio::steady_timer timer_;
  const Options options_;
  LiveSource& source_;
  const std::string id_;  ///< random, per coordinator
  bool ticking_ = false;
  std::vector<std::shared_ptr<Reader>> readers_;  ///< shared with their connections
  std::uint64_t number_ = 0;                      ///< number of the newest piece
  Piece changes_;                                 ///< the newest piece
  Piece everything_;  ///< the whole state as of number_; null: no reader has needed it yet
};

}  // namespace pfc
