// Addresses reported by the hosts, and the user's choice among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

struct HostAddress {
  std::string interface;  ///< "eth0"
  std::string address;    ///< IPv4 or IPv6, shortest form
  int prefix = 0;         ///< length of the network prefix, in bits
  int mtu = 0;            ///< bytes; 0: unknown

  friend bool operator==(const HostAddress&, const HostAddress&) = default;
};

/// Returns "10.0.0.2/24 (eth0)".
std::string text_of(const HostAddress& address);
/// Returns "10.0.0.2/24 (eth0), 10.9.0.2/24 (eth1)", with at most 8 addresses.
std::string text_of(const std::vector<HostAddress>& addresses);

/// Returns the valid addresses of a registration, at most 32.
std::vector<HostAddress> addresses_in(const proto::AgentRegistration& registration);

struct NetworkHost {
  std::string name;
  std::vector<HostAddress> addresses;
  std::string connection = {};  ///< address of its connection to the coordinator
  std::string earlier = {};     ///< address chosen before; empty: none
};

/// Selects addresses of hosts: a network ("10.0.0.0/8", "2001:db8::/32"), an address, or the name
/// of an interface. An empty text selects all.
class NetworkWish {
 public:
  NetworkWish() = default;
  /// Throws InputError if the text is not a network, an address or an interface name.
  explicit NetworkWish(std::string text);

  [[nodiscard]] bool admits(const HostAddress& address) const;
  /// Text as given; empty: all.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string network_;  // address part; empty: an interface, or all
  int prefix_ = 0;
};

/// Returns the network of an address: "10.0.0.0/24".
std::string network_of(const HostAddress& address);
/// Returns whether `address` is in the network `of`/`prefix`. Returns false if the two differ in IP
/// version, or if one of them is not an IP address.
bool is_in_network(const std::string& address, const std::string& of, int prefix);
bool is_v6(const HostAddress& address);

}  // namespace pfc
