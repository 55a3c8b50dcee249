// Keeps the pages of other sites, which run in the same browser, from using this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pfc {

/// Whether a header "Host" names the loopback interface: localhost, 127.x.y.z or [::1], with any
/// port (it may be forwarded).
bool is_loopback_name(std::string_view host);

/// The token of "token=TOKEN" in a query; empty: there is none. Tokens need no escapes.
std::string token_in(std::string_view query);

/// The value of a cookie in a header "Cookie"; empty: there is none.
std::string cookie_in(std::string_view header, std::string_view name);

/// Headers of a POST; empty where one was not sent.
struct PostHeaders {
  std::string_view host;
  std::string_view origin;
  std::string_view sec_fetch_site;
  std::string_view content_type;
  std::string_view request;  ///< "X-Pfc-Request"
};

/// Why a POST is refused; none: it comes from this site's own page, or from no browser. Another
/// site's page can send a form, with the browser's password for this site, but neither JSON nor a
/// header of its own without being asked first (CORS), which is refused here.
std::optional<std::string> why_foreign(const PostHeaders& headers, bool tls);

}  // namespace pfc
