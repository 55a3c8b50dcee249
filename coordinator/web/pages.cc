#include "coordinator/web/pages.h"

#include "common/one_line.h"
#include "coordinator/web/assets.h"
#include "proto/message_json.h"

namespace pfc {

HttpReply serve_page(Coordinator& coordinator, std::string_view path) {
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = coordinator.metrics_text()};
  }
  if (path == "/status.json") {
    return {.content_type = "application/json", .body = json_text(to_json(coordinator.status()))};
  }
  return {.status = 404, .body = "no such page: try /, /metrics, /healthz or /status.json\n"};
}

HttpSite Pages::site() {
  return {.handler = [this](const HttpRequest& request,
                            const HttpAnswer& answer) { handle(request, answer); },
          .post_paths = Actions::post_paths()};
}

void Pages::handle(const HttpRequest& request, const HttpAnswer& answer) {
  if (request.path.starts_with("/api/")) return actions_.handle(request, answer);
  if (request.path == "/events") return answer(events());
  if (auto asset = serve_asset(request)) return answer(*std::move(asset));
  answer(others_(request));
}

HttpReply Pages::events() {
  if (auto feed = feed_.open()) return {.feed = std::move(feed)};
  return {.status = 503, .body = "too many pages are open now; try again\n"};
}

}  // namespace pfc
