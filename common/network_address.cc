#include "common/network_address.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

/// Decodes percent escapes. gRPC writes brackets as %5B and %5D, and the % of a scope as %25.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string without_brackets(const std::string& text) {
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return bracketed ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

std::string join_host_port(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string plain_address(const std::string& text) {
  boost::system::error_code error;
  const auto address = ip::make_address(without_brackets(text), error);
  if (error) return text;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

std::string address_of_peer(const std::string& peer) {
  const std::size_t begin = peer.find(':');
  const std::size_t end = peer.rfind(':');
  if (begin == std::string::npos || end <= begin) return peer;
  return plain_address(without_escapes(peer.substr(begin + 1, end - begin - 1)));
}

std::string host_of(const std::string& host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) return {};
  const char* const end = host_and_port.data() + host_and_port.size();
  int port = 0;
  const auto [rest, error] = std::from_chars(host_and_port.data() + colon + 1, end, port);
  if (error != std::errc() || rest != end || port < 1 || port > 65'535) return {};
  const std::string host = host_and_port.substr(0, colon);
  const std::string inside = without_brackets(host);
  if (inside == host) return host.find_first_of(":[]") == std::string::npos ? host : "";
  boost::system::error_code not_v6;
  ip::make_address_v6(inside, not_v6);
  return not_v6 ? "" : inside;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

}  // namespace pfc
