#include "coordinator/web/http_guard.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "common/one_line.h"
#include "common/random_id.h"
#include "coordinator/web/http_security.h"

namespace pfc {
namespace {

constexpr std::size_t kShownHeaderBytes = 80;  // bytes of a header in a message

/// Removes ":PORT".
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool is_port = colon != host.npos && host.find(']', colon) == host.npos &&
                       host.find_first_not_of("0123456789", colon + 1) == host.npos;
  return is_port ? host.substr(0, colon) : host;
}

/// Returns the VALUE of the first NAME=VALUE in a list.
std::string value_in(std::string_view list, char separator, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    std::string_view entry = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
    const std::size_t equals = entry.find('=');
    if (equals != entry.npos && entry.substr(0, equals) == name) {
      return std::string(entry.substr(equals + 1));
    }
  }
  return {};
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type.substr(0, type.find_last_not_of(' ') + 1) == "application/json";
}

}  // namespace

bool is_loopback_name(std::string_view host) {
  std::string_view name = without_port(host);
  if (name == "localhost" || name == "LOCALHOST") return true;
  const bool bracketed = name.starts_with('[') && name.ends_with(']');
  if (bracketed) name = name.substr(1, name.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(name), error);
  return !error && address.is_loopback() && address.is_v6() == bracketed;
}

std::string token_in(std::string_view query) { return value_in(query, '&', "token"); }

std::string cookie_in(std::string_view header, std::string_view name) {
  return value_in(header, ';', name);
}

std::string HttpSessions::begin(const std::string& authorization) {
  constexpr std::size_t kMost = 1'000;
  if (sessions_.size() >= kMost) sessions_.clear();
  const std::string name = random_id() + random_id();
  sessions_[name] = authorization;
  return name;
}

std::string HttpSessions::authorization(const std::string& name) const {
  const auto found = sessions_.find(name);
  return found == sessions_.end() ? std::string() : found->second;
}

std::optional<std::string> why_foreign(const PostHeaders& headers, bool tls) {
  if (!headers.sec_fetch_site.empty() && headers.sec_fetch_site != "same-origin") {
    return "the browser reports that another site's page sent it (Sec-Fetch-Site: " +
           one_line(headers.sec_fetch_site, kShownHeaderBytes) + ")";
  }
  const std::string own = (tls ? "https://" : "http://") + std::string(headers.host);
  if (!headers.origin.empty() && headers.origin != own) {
    return "it comes from " + one_line(headers.origin, kShownHeaderBytes) + ", expected " +
           one_line(own, kShownHeaderBytes);
  }
  if (headers.request.empty()) return "it has no header \"X-Pfc-Request: 1\"";
  if (!is_json(headers.content_type)) {
    return "its Content-Type is \"" + one_line(headers.content_type, kShownHeaderBytes) +
           "\", expected application/json";
  }
  return {};
}

}  // namespace pfc
