// What the hosts have told about their addresses, and which of them a person wants to be used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

struct HostAddress {
  std::string interface;  ///< "eth0"
  std::string address;    ///< IPv4 or IPv6, in its shortest form
  int prefix = 0;         ///< bits of its network
  int mtu = 0;            ///< bytes; 0: not known

  friend bool operator==(const HostAddress&, const HostAddress&) = default;
};

/// "10.0.0.2/24 (eth0)"
std::string text_of(const HostAddress& address);
/// "10.0.0.2/24 (eth0), 10.9.0.2/24 (eth1)"; of more than 8 the first ones.
std::string text_of(const std::vector<HostAddress>& addresses);

/// Those of a registration that are addresses, at most 32 of them.
std::vector<HostAddress> addresses_in(const proto::AgentRegistration& registration);

struct NetworkHost {
  std::string name;
  std::vector<HostAddress> addresses;
  std::string connection = {};  ///< the address of its connection to the coordinator
  std::string earlier = {};     ///< the address that was chosen for it before; empty: none was
};

/// Some addresses of hosts: a network ("10.0.0.0/8", "2001:db8::/32"), an address, or the interface
/// of that name. An empty text means all addresses.
class NetworkWish {
 public:
  NetworkWish() = default;
  /// Throws InputError when the text is no network, address or name of an interface.
  explicit NetworkWish(std::string text);

  [[nodiscard]] bool admits(const HostAddress& address) const;
  /// As it was given; empty: all.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string network_;  // its address; empty: it is an interface, or all
  int prefix_ = 0;
};

/// The network of an address: "10.0.0.0/24".
std::string network_of(const HostAddress& address);
/// Whether `address` is in the network of `of`. Both are IPv4, or both IPv6.
bool is_in_network(const std::string& address, const std::string& of, int prefix);
bool is_v6(const HostAddress& address);

}  // namespace pfc
