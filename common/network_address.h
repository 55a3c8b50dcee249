// Parses and formats hosts, addresses and ports: IPv4, IPv6 and names.
#pragma once

#include <string>

namespace pfc {

/// Returns text such as "a:7450", "10.0.0.2:7450" or "[2001:db8::7]:7450".
std::string join_host_port(const std::string& host, int port);

/// Returns the shortest form of an address: "[2001:DB8::0:7]" -> "2001:db8::7", "::ffff:10.0.0.2"
/// -> "10.0.0.2". Returns a name unchanged.
std::string plain_address(const std::string& text);

/// Returns the address in a gRPC peer name: "ipv4:10.0.0.2:4711" -> "10.0.0.2",
/// "ipv6:%5B2001:db8::7%5D:4711" -> "2001:db8::7".
std::string address_of_peer(const std::string& peer);

/// Returns the host of HOST:PORT; empty if the text is malformed or the port is not 1 to 65535. An
/// IPv6 address must be in brackets.
std::string host_of(const std::string& host_and_port);

/// Converts ASCII letters to lower case. Host names are compared in lower case (RFC 4343).
std::string lower_case(std::string text);

}  // namespace pfc
