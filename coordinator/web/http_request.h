// Requests and replies of the coordinator's HTTP server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/access/caller.h"

namespace pfc {

/// An admitted request: its sender may see pages, and a POST does not come from another site's
/// page.
struct HttpRequest {
  bool post = false;  ///< otherwise GET or HEAD
  std::string path;   ///< "/api/log"
  std::string query;  ///< "rank=0&part=1", as sent; empty: none
  std::string body;   ///< body of a POST
  std::string if_none_match;
  bool scrape = false;  ///< sent by Prometheus or a similar periodic reader
  Caller caller;
};

/// Text that is sent to one reader in pieces. The connection takes the next piece when the last
/// one has been sent, so a slow reader holds only one piece.
class HttpFeed {
 public:
  virtual ~HttpFeed() = default;
  /// Returns the next piece, shared by all readers with the same content; null if there is none
  /// yet.
  virtual std::shared_ptr<const std::string> next() = 0;
  /// Calls `call` once, when next() has a piece. REQUIRES: next() has just returned null. An empty
  /// `call` cancels the earlier one, because the reader has disconnected.
  virtual void when_ready(std::function<void()> call) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string etag = {};                     ///< with quotes; empty: not cacheable
  std::shared_ptr<HttpFeed> feed = nullptr;  ///< sent instead of the body
  std::string location = {};                 ///< target of a 303
  std::string cookie = {};                   ///< Set-Cookie: "NAME=VALUE; ..."
};

/// Called once, on the event loop, immediately or later.
using HttpAnswer = std::function<void(HttpReply)>;

/// Content of the server. If a handler throws, the reply is 500.
struct HttpSite {
  std::function<void(const HttpRequest&, const HttpAnswer&)> handler;
  std::vector<std::string> post_paths = {};  ///< all other paths accept only GET and HEAD
};

/// Returns a site of pages that depend only on their path.
HttpSite pages_only(std::function<HttpReply(std::string_view path)> pages);

}  // namespace pfc
