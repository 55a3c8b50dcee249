// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for all who
// have the page at / open: the job's state, at most twice a second.
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

/// What a feed tells of: JSON objects, in one line each.
class LiveSource {
 public:
  /// What has changed since the last call; empty: nothing. It may tell again what all() has told.
  virtual std::string changes() = 0;
  /// What somebody needs who has nothing yet.
  virtual std::string all() = 0;

 protected:
  ~LiveSource() = default;
};

/// Each reader gets everything at first, and then what has changed. Both are made once for all
/// readers. One that has not read the last piece when another is made gets everything again
/// as soon as it reads: so no reader makes anything grow. Without readers nothing is made. Used on
/// the event loop only.
class LiveFeed {
 public:
  struct Options {
    std::chrono::milliseconds pause{500};         ///< between two pieces
    std::chrono::milliseconds heartbeat{10'000};  ///< after which a reader gets a comment at least
    std::size_t most_readers = 16;
  };

  /// Borrows the source.
  LiveFeed(boost::asio::io_context& loop, Options options, LiveSource& source);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  /// A new reader; null: there are too many.
  std::shared_ptr<HttpFeed> open();
  /// Sends now what there is: nothing more may come.
  void flush();

  [[nodiscard]] std::size_t readers() const { return readers_.size(); }

 private:
  class Reader;
  using Piece = std::shared_ptr<const std::string>;

  void tick();
  void drop_those_who_left();
  /// Looks for changes, and makes the next piece of them.
  void look();
  [[nodiscard]] std::string event(const std::string& json) const;
  [[nodiscard]] Piece everything();

  boost::asio::steady_timer timer_;
  const Options options_;
  LiveSource& source_;
  const std::string id_;  ///< of this coordinator, random
  bool ticking_ = false;
  std::vector<std::shared_ptr<Reader>> readers_;  ///< each also of its connection, while that lives
  std::uint64_t number_ = 0;                      ///< of the newest piece
  Piece changes_;                                 ///< the newest piece
  Piece everything_;                              ///< as of number_; null: nobody has asked
};

}  // namespace pfc
