#include "coordinator/web/assets.h"

#include <algorithm>
#include <string>

namespace pfc {
namespace {

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

}  // namespace

std::optional<HttpReply> serve_asset(const HttpRequest& request) {
  constexpr std::string_view kFolder = "/assets/";
  std::string_view name = request.path;
  if (name == "/") {
    name = "index.html";
  } else if (name.starts_with(kFolder)) {
    name.remove_prefix(kFolder.size());
  } else {
    return {};
  }
  const auto found = std::ranges::find(assets(), name, &Asset::name);
  if (found == assets().end()) return {};
  HttpReply reply{.content_type = type_of(name), .etag = std::string(found->etag)};
  if (request.if_none_match.find(found->etag) != std::string::npos) {
    reply.status = 304;
  } else {
    reply.body = found->contents;
  }
  return reply;
}

}  // namespace pfc
