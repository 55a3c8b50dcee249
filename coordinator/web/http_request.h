// What the coordinator's HTTP server is asked, and what it answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/access/caller.h"

namespace pfc {

/// A request that may be answered: its sender may see pages, and where it is a POST it does not
/// come from another site's page.
struct HttpRequest {
  bool post = false;  ///< otherwise GET or HEAD
  std::string path;   ///< "/api/log"
  std::string query;  ///< "rank=0&part=1", as it was sent; empty: none
  std::string body;   ///< of a POST
  std::string if_none_match;
  bool scrape = false;  ///< it comes from Prometheus, or from what reads as regularly as it does
  Caller caller;
};

/// Text that is sent to one reader piece after piece, for as long as it reads. The connection takes
/// the next piece when the last one has left: so a reader that does not read holds back nothing but
/// that piece.
class HttpFeed {
 public:
  virtual ~HttpFeed() = default;
  /// Shared by all readers that get the same. Null: there is nothing yet.
  virtual std::shared_ptr<const std::string> next() = 0;
  /// Calls `call` once, when next() has a piece. REQUIRES: next() has just returned null. An empty
  /// `call` cancels the earlier one, because the reader has disconnected.
  virtual void when_ready(std::function<void()> call) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string etag = {};                     ///< with its quotes; empty: the reply is never kept
  std::shared_ptr<HttpFeed> feed = nullptr;  ///< comes instead of the body
  std::string location = {};                 ///< where a 303 leads
  std::string cookie = {};                   ///< for the browser to keep: "NAME=VALUE; ..."
};

/// Called once, on the event loop, at once or later.
using HttpAnswer = std::function<void(HttpReply)>;

/// What is served. A handler that throws is answered with 500.
struct HttpSite {
  std::function<void(const HttpRequest&, const HttpAnswer&)> handler;
  std::vector<std::string> post_paths = {};  ///< all others take GET and HEAD alone
};

/// A site of pages that depend on nothing but their paths.
HttpSite pages_only(std::function<HttpReply(std::string_view path)> pages);

}  // namespace pfc
