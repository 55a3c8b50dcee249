// The files of the page at /, which are part of the program.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "coordinator/web/http_request.h"

namespace pfc {

/// A file of coordinator/web/assets or third_party. Made by cmake/embed.cmake.
struct Asset {
  std::string_view name;  ///< "page.css"
  std::string_view etag;  ///< of its contents, with quotes
  std::string_view contents;
};
std::span<const Asset> assets();

/// The page at /, or /assets/NAME; with 304 where the request's sender has it already. None: there
/// is no such file.
std::optional<HttpReply> serve_asset(const HttpRequest& request);

}  // namespace pfc
