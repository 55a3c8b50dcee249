// The signals that ask a program to end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <optional>

namespace pfc {

/// SIGINT, SIGTERM and SIGHUP, as long as it lives. SIGHUP stays ignored where it was ignored when
/// the program started: nohup does that. Used on the event loop only.
class StopSignals {
 public:
  /// Takes the signal's number, and whether there was one before.
  using Handler = std::function<void(int number, bool again)>;

  StopSignals(boost::asio::io_context& loop, Handler handler);
  /// Restores the earlier signal handlers.
  void restore() { signals_.clear(); }
  /// Empty: none has come yet.
  [[nodiscard]] std::optional<int> first() const { return first_; }

 private:
  void wait();

  boost::asio::signal_set signals_;
  const Handler handler_;
  std::optional<int> first_;
};

}  // namespace pfc
