#include "coordinator/allocation/host_list.h"

#include <algorithm>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/network_address.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

constexpr std::size_t kMaxHostListBytes =
    kMaxHosts * (kMaxHostName + 64);  // one line per host, with a comment

/// Position of an entry, for errors: "--hosts 'a:8,b:x'", "hosts.txt, line 3".
struct Source {
  std::string where;
  std::string expected;

  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(where + ": " + problem + "; expected " + expected);
  }
};

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHostName && !name.starts_with('-') &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

int parse_slots(const Source& source, const std::string& quoted, std::string_view number) {
  if (number.empty()) source.refuse(quoted + " has no number of slots");
  int slots = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), slots);
  if (error != std::errc() || end != number.data() + number.size() || slots < 1 ||
      slots > kMaxSlots) {
    source.refuse(quoted + " has '" + std::string(number) + "' slots, not 1 to " +
                  std::to_string(kMaxSlots));
  }
  return slots;
}

/// Returns the entry without its slots: "[2001:db8::7]" for "[2001:db8::7]:8".
std::string_view name_part(std::string_view entry) {
  if (!entry.starts_with('[')) return entry.substr(0, entry.find(':'));
  const std::size_t bracket = entry.find(']');
  return bracket == std::string_view::npos ? entry : entry.substr(0, bracket + 1);
}

std::string parse_name(const Source& source, const std::string& quoted, std::string_view part) {
  if (part.empty()) source.refuse(quoted + " has no host name");
  if (!part.starts_with('[')) {
    if (!valid_name(part)) source.refuse(quoted + " is not a host name or address");
    boost::system::error_code no_address;
    const auto address = ip::make_address_v4(std::string(part), no_address);
    if (!no_address && (address.is_unspecified() || address == ip::address_v4::broadcast())) {
      source.refuse(quoted + " cannot be the address of a host");
    }
    return std::string(part);
  }
  boost::system::error_code error;
  const auto address = ip::make_address_v6(std::string(part.substr(1, part.size() - 2)), error);
  if (error || !part.ends_with(']')) {
    source.refuse(quoted + " has no IPv6 address between its brackets");
  }
  return plain_address(address.to_string());
}

HostSpec parse_host(const Source& source, std::string_view entry) {
  const std::string quoted = "'" + std::string(entry) + "'";
  if (entry.empty()) source.refuse("an entry is empty");
  boost::system::error_code error;
  ip::make_address_v6(std::string(entry), error);
  if (!error) source.refuse("write the IPv6 address " + quoted + " in brackets");
  const std::string_view part = name_part(entry);
  const std::string_view rest = entry.substr(part.size());
  HostSpec host{.name = parse_name(source, quoted, part)};
  if (rest.empty()) return host;
  if (!rest.starts_with(':'))
    source.refuse(quoted + " has '" + std::string(rest) + "' after its name");
  host.slots = parse_slots(source, quoted, rest.substr(1));
  return host;
}

/// A list of distinct hosts.
class HostList {
 public:
  void add(const Source& source, HostSpec host) {
    if (!places_.try_emplace(lower_case(host.name), hosts_.size()).second) {
      source.refuse("host '" + host.name + "' is given twice");
    }
    if (hosts_.size() == kMaxHosts) {
      source.refuse("more than " + std::to_string(kMaxHosts) + " hosts");
    }
    hosts_.push_back(std::move(host));
  }
  /// Adds a host, or adds these slots to a host that is already listed.
  void add_slots(const Source& source, HostSpec host) {
    const auto place = places_.find(lower_case(host.name));
    if (place == places_.end()) return add(source, std::move(host));
    int& slots = hosts_[place->second].slots;
    slots = std::max(slots, 1) + std::max(host.slots, 1);
    if (slots <= kMaxSlots) return;
    source.refuse("host '" + host.name + "' has more than " + std::to_string(kMaxSlots) +
                  " slots in all its lines");
  }
  [[nodiscard]] std::vector<HostSpec> take() { return std::move(hosts_); }

 private:
  std::vector<HostSpec> hosts_;
  std::map<std::string, std::size_t> places_;  // index in hosts_ by lower-case name
};

/// Splits a line, up to a comment, into words. "slots = 8" is one word.
std::vector<std::string> words_before_comment(const std::string& line) {
  static const std::regex equals(R"([ \t]*=[ \t]*)");
  std::istringstream stream(std::regex_replace(line.substr(0, line.find('#')), equals, "="));
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Parses "b", "b:8" or "b slots=8". Ignores "max_slots=...", which MPI host files may have.
HostSpec parse_line(const Source& source, const std::vector<std::string>& words) {
  HostSpec host = parse_host(source, words.front());
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (key == "max_slots" || key == "max-slots") continue;
    if (key != "slots" || equals == std::string::npos) source.refuse("'" + word + "' is not known");
    if (host.slots != 0) source.refuse("'" + words.front() + "' has two numbers of slots");
    host.slots = parse_slots(source, "'" + words.front() + "'", word.substr(equals + 1));
  }
  return host;
}

std::string read_whole_file(const std::filesystem::path& file) {
  std::string text = read_text(file, kMaxHostListBytes + 1);
  if (text.size() > kMaxHostListBytes) {
    throw InputError(file.string() + ": more than " + std::to_string(kMaxHostListBytes) +
                     " bytes; expected a list of hosts, one per line");
  }
  return text;
}

}  // namespace

std::vector<HostSpec> checked_hosts(const std::string& where, const std::string& expected,
                                    std::span<const HostSpec> hosts) {
  const Source source{.where = where, .expected = expected};
  HostList list;
  for (HostSpec host : hosts) {
    const std::string quoted = "'" + host.name + "'";
    const bool is_v6 = host.name.find(':') != std::string::npos;
    host.name = parse_name(source, quoted, is_v6 ? "[" + host.name + "]" : host.name);
    if (host.slots < 0 || host.slots > kMaxSlots) {
      source.refuse(quoted + " has " + std::to_string(host.slots) + " slots, not 1 to " +
                    std::to_string(kMaxSlots));
    }
    list.add(source, std::move(host));
  }
  std::vector<HostSpec> checked = list.take();
  if (checked.empty()) source.refuse("it lists no host");
  return checked;
}

int workers_of(std::span<const HostSpec> hosts) {
  int workers = 0;
  for (const HostSpec& host : hosts) {
    if (host.slots == 0) return 0;
    workers += host.slots;
  }
  return workers;
}

std::vector<HostSpec> parse_hosts(std::string_view text) {
  const Source source{.where = "--hosts '" + std::string(text) + "'",
                      .expected = "NAME[:SLOTS][,NAME[:SLOTS]...], for example localhost:2"};
  if (text.empty()) source.refuse("it is empty");
  HostList hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    hosts.add(source, parse_host(source, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return hosts.take();
}

std::vector<HostSpec> read_hosts_file(const std::filesystem::path& file) {
  const std::string text = read_whole_file(file);
  Source source{.where = file.string(),
                .expected = "one host a line: NAME, NAME:SLOTS or NAME slots=SLOTS"};
  HostList list;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // written by some editors
  std::istringstream lines(
      text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    source.where = file.string() + ", line " + std::to_string(number);
    const std::vector<std::string> words = words_before_comment(line);
    if (!words.empty()) list.add_slots(source, parse_line(source, words));
  }
  source.where = file.string();
  std::vector<HostSpec> hosts = list.take();
  if (hosts.empty()) source.refuse("it lists no host");
  return hosts;
}

}  // namespace pfc
