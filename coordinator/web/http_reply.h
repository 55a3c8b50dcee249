// What the coordinator's HTTP server answers.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace pfc {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Makes the page of a path. What it throws is answered with 500.
using HttpHandler = std::function<HttpReply(std::string_view path)>;

}  // namespace pfc
