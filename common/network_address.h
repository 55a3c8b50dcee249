// How hosts, addresses and ports are written: IPv4, IPv6 and names.
#pragma once

#include <string>

namespace pfc {

/// "a:7450", "10.0.0.2:7450", "[2001:db8::7]:7450".
std::string join_host_port(const std::string& host, int port);

/// The shortest form of an address: "[2001:DB8::0:7]" -> "2001:db8::7", "::ffff:10.0.0.2" ->
/// "10.0.0.2". A name is returned as it is.
std::string plain_address(const std::string& text);

/// The address in a gRPC peer's name: "ipv4:10.0.0.2:4711" -> "10.0.0.2",
/// "ipv6:%5B2001:db8::7%5D:4711" -> "2001:db8::7".
std::string address_of_peer(const std::string& peer);

/// The host of HOST:PORT; empty when the text is none, or its port is not 1 to 65535. An IPv6
/// address stands in brackets.
std::string host_of(const std::string& host_and_port);

/// Converts ASCII letters to lower case. Host names are compared in lower case (RFC 4343).
std::string lower_case(std::string text);

}  // namespace pfc
