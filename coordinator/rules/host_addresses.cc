#include "coordinator/rules/host_addresses.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <utility>

#include "common/error.h"
#include "common/network_address.h"
#include "common/one_line.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

constexpr int kMostAddresses = 32;             // per host; an agent sends at most 16
constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ without the terminator
constexpr std::size_t kShownAddresses = 8;
constexpr int kLargestMtu = 1 << 20;

std::optional<std::vector<unsigned char>> bytes_of(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = ip::make_address(address, error);
  if (error) return {};
  const auto vector = [](const auto& bytes) {
    return std::vector<unsigned char>(bytes.begin(), bytes.end());
  };
  return parsed.is_v4() ? vector(parsed.to_v4().to_bytes()) : vector(parsed.to_v6().to_bytes());
}

int bits_of_family(const std::string& address) {
  return address.find(':') == std::string::npos ? 32 : 128;
}

/// Clears the bits after the prefix.
std::vector<unsigned char> masked(std::vector<unsigned char> bytes, int prefix) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int kept = std::clamp(prefix - 8 * static_cast<int>(i), 0, 8);
    bytes[i] &= static_cast<unsigned char>(0xff << (8 - kept));
  }
  return bytes;
}

std::string written(const std::vector<unsigned char>& bytes) {
  if (bytes.size() == 4) {
    ip::address_v4::bytes_type v4;
    std::ranges::copy(bytes, v4.begin());
    return ip::make_address_v4(v4).to_string();
  }
  ip::address_v6::bytes_type v6;
  std::ranges::copy(bytes, v6.begin());
  return ip::make_address_v6(v6).to_string();
}

bool may_name_interface(const std::string& text) {
  return !text.empty() && text.size() <= kLongestInterface &&
         text.find_first_of("/ \t") == std::string::npos;
}

InputError not_a_network(const std::string& text) {
  return InputError("--network: found '" + one_line(text) +
                    "', expected a network (10.0.0.0/8), an address, or an interface (eth0)");
}

}  // namespace

std::string text_of(const HostAddress& address) {
  return address.address + "/" + std::to_string(address.prefix) + " (" + address.interface + ")";
}

std::string text_of(const std::vector<HostAddress>& addresses) {
  std::string text;
  for (std::size_t i = 0; i < std::min(addresses.size(), kShownAddresses); ++i) {
    text += (i == 0 ? "" : ", ") + text_of(addresses[i]);
  }
  if (addresses.size() > kShownAddresses) {
    text += " and " + std::to_string(addresses.size() - kShownAddresses) + " more";
  }
  return text.empty() ? "no address" : text;
}

std::vector<HostAddress> addresses_in(const proto::AgentRegistration& registration) {
  std::vector<HostAddress> addresses;
  for (const proto::NetworkAddress& told : registration.addresses()) {
    if (std::ssize(addresses) == kMostAddresses) break;
    const std::string address = plain_address(told.address());
    if (!bytes_of(address) || !may_name_interface(told.interface())) continue;
    addresses.push_back({.interface = one_line(told.interface()),
                         .address = address,
                         .prefix = std::clamp(told.prefix(), 0, bits_of_family(address)),
                         .mtu = std::clamp(told.mtu(), 0, kLargestMtu)});
  }
  return addresses;
}

NetworkWish::NetworkWish(std::string text) : text_(std::move(text)) {
  if (text_.empty()) return;
  const std::size_t slash = text_.find('/');
  const std::string address = plain_address(text_.substr(0, slash));
  if (!bytes_of(address)) {
    // A mistyped address or network must not become an interface name.
    if (!may_name_interface(text_) || text_.find_first_of(".:") != std::string::npos) {
      throw not_a_network(text_);
    }
    return;
  }
  network_ = address;
  prefix_ = bits_of_family(address);
  if (slash == std::string::npos) return;
  const char* const end = text_.data() + text_.size();
  int prefix = -1;
  const auto [rest, error] = std::from_chars(text_.data() + slash + 1, end, prefix);
  const bool valid = error == std::errc() && rest == end && prefix >= 0 && prefix <= prefix_;
  if (!valid) throw not_a_network(text_);
  prefix_ = prefix;
}

bool NetworkWish::admits(const HostAddress& address) const {
  if (text_.empty()) return true;
  if (network_.empty()) return address.interface == text_;
  return is_in_network(address.address, network_, prefix_);
}

std::string network_of(const HostAddress& address) {
  const auto bytes = bytes_of(address.address);
  check(bytes.has_value(), "network_of: not an address");
  return written(masked(*bytes, address.prefix)) + "/" + std::to_string(address.prefix);
}

bool is_in_network(const std::string& address, const std::string& of, int prefix) {
  const auto a = bytes_of(address), b = bytes_of(of);
  return a && b && a->size() == b->size() && masked(*a, prefix) == masked(*b, prefix);
}

bool is_v6(const HostAddress& address) { return address.address.find(':') != std::string::npos; }

}  // namespace pfc
