// Protects against requests from other sites' pages in the same browser.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

/// Returns whether a "Host" header names the loopback interface: localhost, 127.x.y.z or [::1].
/// Any port is allowed, because it may be forwarded.
bool is_loopback_name(std::string_view host);

/// Returns the token of "token=TOKEN" in a query; empty if absent. Tokens need no escapes.
std::string token_in(std::string_view query);

/// Returns the value of a cookie in a "Cookie" header; empty if absent.
std::string cookie_in(std::string_view header, std::string_view name);

/// Headers of a POST; empty if absent.
struct PostHeaders {
  std::string_view host;
  std::string_view origin;
  std::string_view sec_fetch_site;
  std::string_view content_type;
  std::string_view request;  ///< "X-Pfc-Request"
};

/// Returns why a POST is refused; nothing if it comes from this site's page or not from a browser.
/// Another site's page can submit a form with the browser's password for this site. It cannot send
/// JSON or its own header without a CORS preflight, which is refused here.
std::optional<std::string> why_foreign(const PostHeaders& headers, bool tls);

}  // namespace pfc
