// The coordinator's HTTP pages.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/web/actions.h"
#include "coordinator/web/http_request.h"
#include "coordinator/web/live/live_feed.h"
#include "coordinator/web/live/live_state.h"

namespace pfc {

/// Serves a path that programs read: /metrics (Prometheus), /healthz or /status.json.
HttpReply serve_page(Coordinator& coordinator, std::string_view path);

/// The page at / (docs/page.md) with its files, events and actions. Used on the event loop only.
class Pages {
 public:
  using ForPrograms = std::function<HttpReply(const HttpRequest& request)>;

  /// Borrows loop, coordinator and gate; `gate`: null in plaintext. `others` serves all other
  /// paths.
  Pages(boost::asio::io_context& loop, Coordinator& coordinator, Gate* gate, ForPrograms others)
      : others_(std::move(others)),
        state_(coordinator),
        feed_(loop, {}, state_),
        actions_(coordinator, gate) {}

  /// Returns the site, which refers to this object.
  HttpSite site();
  /// Sends the final state to the readers, because the coordinator ends.
  void tell_end() { feed_.flush(); }

 private:
  void handle(const HttpRequest& request, const HttpAnswer& answer);
  HttpReply events();

  const ForPrograms others_;
  LiveState state_;
  LiveFeed feed_;
  Actions actions_;
};

}  // namespace pfc
