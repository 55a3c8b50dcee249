#include "coordinator/allocation/mpi_hosts.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {
namespace {

constexpr std::size_t kMaxMpiHostsBytes = std::size_t{16} << 20;  // one line per slot

/// Hosts in order of first appearance, with their summed slots.
class Slots {
 public:
  void add(const std::string& host, int slots) {
    const auto [place, is_new] = places_.try_emplace(host, hosts_.size());
    if (is_new && hosts_.size() <= kMaxHosts) hosts_.push_back({.name = host});
    if (place->second >= hosts_.size()) return;  // more than kMaxHosts, which is an error later
    int& sum = hosts_[place->second].slots;
    sum = std::min(sum + std::min(slots, kMaxSlots + 1), kMaxSlots + 1);
  }
  [[nodiscard]] const std::vector<HostSpec>& hosts() const { return hosts_; }

 private:
  std::vector<HostSpec> hosts_;
  std::map<std::string, std::size_t> places_;  // index in hosts_
};

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

int slots_from(const std::string& where, const std::string& expected, const std::string& word) {
  int slots = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), slots);
  if (error != std::errc() || end != word.data() + word.size() || slots < 1 || slots > kMaxSlots) {
    throw InputError(where + ": '" + word + "' is not a number of slots from 1 to " +
                     std::to_string(kMaxSlots) + "; expected " + expected);
  }
  return slots;
}

std::string quoted(const char* variable, const std::string& value) {
  return std::string(variable) + " '" + value + "'";
}

/// Parses "hostA 4 hostB 8".
std::vector<HostSpec> pairs(const std::string& value) {
  const std::string where = quoted("LSB_MCPU_HOSTS", value), expected = "HOST SLOTS HOST SLOTS ...";
  const std::vector<std::string> words = words_in(value);
  if (words.size() % 2 != 0) {
    throw InputError(where + ": '" + words.back() + "' has no number of slots; expected " +
                     expected);
  }
  Slots slots;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    slots.add(words[i], slots_from(where, expected, words[i + 1]));
  }
  return checked_hosts(where, expected, slots.hosts());
}

/// Parses words or lines, each of which is one slot on the host that it names.
std::vector<HostSpec> one_a_slot(const std::string& where, const std::string& text) {
  Slots slots;
  for (const std::string& host : words_in(text)) slots.add(host, 1);
  return checked_hosts(where, "the name of a host for each slot", slots.hosts());
}

std::string text_of_file(const std::string& where, const std::string& file) {
  std::string text = read_text(file, kMaxMpiHostsBytes + 1);
  if (text.size() <= kMaxMpiHostsBytes) return text;
  throw InputError(where + ": more than " + std::to_string(kMaxMpiHostsBytes) +
                   " bytes; expected a list of hosts");
}

/// Parses lines of "HOST SLOTS QUEUE PROCESSORS".
std::vector<HostSpec> grid_engine(const std::string& file) {
  const std::string where = quoted("PE_HOSTFILE", file);
  const std::string expected = "HOST SLOTS in each line";
  std::istringstream lines(text_of_file(where, file));
  Slots slots;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string here = where + ", line " + std::to_string(number);
    const std::vector<std::string> words = words_in(line);
    if (words.empty()) continue;
    slots.add(words[0], slots_from(here, expected, words.size() < 2 ? "" : words[1]));
  }
  return checked_hosts(where, expected, slots.hosts());
}

}  // namespace

std::vector<HostSpec> mpi_hosts(const Variables& variables) {
  if (const auto hosts = variables("LSB_MCPU_HOSTS")) return pairs(*hosts);
  if (const auto hosts = variables("LSB_HOSTS")) {
    return one_a_slot(quoted("LSB_HOSTS", *hosts), *hosts);
  }
  if (const auto file = variables("PBS_NODEFILE")) {
    const std::string where = quoted("PBS_NODEFILE", *file);
    return one_a_slot(where, text_of_file(where, *file));
  }
  if (const auto file = variables("PE_HOSTFILE")) return grid_engine(*file);
  for (const char* name : {"PRTE_MCA_prte_default_hostfile", "OMPI_MCA_orte_default_hostfile"}) {
    if (const auto file = variables(name)) return read_hosts_file(*file);
  }
  const bool is_child = variables("OMPI_COMM_WORLD_SIZE").has_value();
  throw InputError(
      std::string("--hosts-from mpi: none of LSB_MCPU_HOSTS, LSB_HOSTS, PBS_NODEFILE, PE_HOSTFILE, "
                  "PRTE_MCA_prte_default_hostfile and OMPI_MCA_orte_default_hostfile is set") +
      (is_child ? ", and mpirun passes no list of hosts to its processes" : "") +
      "; expected the environment of a batch job, or mpirun's host file as --hosts-file, with "
      "pfc-coordinator started separately from mpirun");
}

}  // namespace pfc
