#include "coordinator/allocation/slurm_hosts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "common/counted.h"
#include "common/error.h"

namespace pfc {
namespace {

/// The text being parsed, for errors.
struct Field {
  std::string variable;
  std::string value;
  std::string expected;

  [[nodiscard]] std::string where() const { return variable + " '" + value + "'"; }
  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(where() + ": " + problem + "; expected " + expected);
  }
};

/// Parses a non-negative number. Host names may contain long serial numbers:
/// "n[1234567890-1234567891]".
template <typename Integer>
Integer number_in_field(const Field& field, std::string_view digits) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || digits.front() == '-') {
    field.refuse("'" + std::string(digits) + "' is " +
                 (error == std::errc::result_out_of_range ? "too large" : "not a number"));
  }
  return number;
}

/// Removes and returns the text before the first comma.
std::string_view take_entry(std::string_view& list) {
  const std::size_t end = std::min(list.find(','), list.size());
  const std::string_view entry = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return entry;
}

/// Expands "8-10,012" to "8", "9", "10", "012". At most kMaxHosts.
std::vector<std::string> numbers_in_brackets(const Field& field, std::string_view group) {
  std::vector<std::string> texts;
  if (group.empty() || group.back() == ',') field.refuse("a range is empty");
  while (!group.empty()) {
    const std::string_view entry = take_entry(group);
    if (entry.empty()) field.refuse("a range is empty");
    const std::size_t dash = entry.find('-');
    const std::string_view low = entry.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : entry.substr(dash + 1);
    const auto first = number_in_field<std::int64_t>(field, low);
    const auto last = number_in_field<std::int64_t>(field, high);
    if (last < first) field.refuse("the range '" + std::string(entry) + "' runs backwards");
    if (static_cast<std::size_t>(last - first) >= kMaxHosts - texts.size()) {
      field.refuse("more than " + std::to_string(kMaxHosts) + " hosts");
    }
    for (std::size_t i = 0; i <= static_cast<std::size_t>(last - first); ++i) {
      const std::string digits = std::to_string(first + static_cast<std::int64_t>(i));
      const std::size_t zeros = low.size() > digits.size() ? low.size() - digits.size() : 0;
      texts.push_back(std::string(zeros, '0') + digits);
    }
  }
  return texts;
}

/// Returns every name with every ending.
std::vector<std::string> with_endings(const Field& field, const std::vector<std::string>& names,
                                      const std::vector<std::string>& endings) {
  if (names.size() * endings.size() > kMaxHosts) {
    field.refuse("more than " + std::to_string(kMaxHosts) + " hosts");
  }
  std::vector<std::string> all;
  all.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings) {
      if (name.size() + ending.size() > kMaxHostName) field.refuse("a name is too long");
      all.push_back(name + ending);
    }
  }
  return all;
}

/// Removes the first entry, up to a comma outside brackets, and returns its hosts.
std::vector<std::string> take_hosts(const Field& field, std::string_view& list) {
  std::vector<std::string> names{""};
  bool ended = false;
  while (!ended && !list.empty()) {
    const std::size_t plain = std::min(list.find_first_of("[],"), list.size());
    names = with_endings(field, names, {std::string(list.substr(0, plain))});
    list.remove_prefix(plain);
    if (list.empty()) break;
    if (list.front() == ']') field.refuse("a ']' has no '['");
    ended = list.front() == ',';
    list.remove_prefix(1);
    if (ended) break;
    const std::size_t close = list.find(']');
    if (close == std::string_view::npos) field.refuse("a '[' has no ']'");
    names = with_endings(field, names, numbers_in_brackets(field, list.substr(0, close)));
    list.remove_prefix(close + 1);
  }
  if (names.front().empty() || (ended && list.empty())) field.refuse("an entry is empty");
  return names;
}

/// Returns the sum of "8", "h100:8" or "h100:4,a100:2".
int gpus_of(const Field& field) {
  int gpus = 0;
  for (std::string_view list = field.value; !list.empty();) {
    std::string_view entry = take_entry(list);
    if (const std::size_t colon = entry.rfind(':'); colon != std::string_view::npos) {
      entry.remove_prefix(colon + 1);
    }
    if (entry.empty()) field.refuse("an entry has no number");
    const int more = number_in_field<int>(field, entry);
    if (more > kMaxSlots - gpus) field.refuse("more than " + std::to_string(kMaxSlots) + " GPUs");
    gpus += more;
  }
  return gpus;
}

/// Returns the slots of each host; empty if agents must count their GPUs.
std::vector<int> slots_of_nodes(const Variables& variables, std::size_t hosts) {
  if (const auto gpus = variables("SLURM_GPUS_PER_NODE")) {
    const int each = gpus_of({.variable = "SLURM_GPUS_PER_NODE",
                              .value = *gpus,
                              .expected = "a number, or TYPE:NUMBER"});
    if (each > 0) return std::vector<int>(hosts, each);
  }
  if (variables("SLURM_GPUS_ON_NODE").value_or("0") != "0") return {};
  const auto tasks = variables("SLURM_TASKS_PER_NODE");
  if (!tasks) return {};
  std::vector<int> counts = expand_slurm_counts("SLURM_TASKS_PER_NODE", *tasks);
  if (counts.size() == hosts) return counts;
  throw InputError("SLURM_TASKS_PER_NODE '" + *tasks + "': it is for " +
                   counted(std::ssize(counts), "host") + ", SLURM_JOB_NODELIST has " +
                   std::to_string(hosts) +
                   "; expected the same number: run pfc-coordinator in the batch script, not under "
                   "srun");
}

}  // namespace

std::vector<std::string> expand_slurm_nodes(const std::string& variable, std::string_view list) {
  const Field field{.variable = variable,
                    .value = std::string(list),
                    .expected = "names with ranges in brackets, for example n[01-16],login"};
  if (list.empty()) field.refuse("it is empty");
  std::vector<std::string> hosts;
  while (!list.empty()) {
    std::vector<std::string> more = take_hosts(field, list);
    if (more.size() > kMaxHosts - hosts.size()) {
      field.refuse("more than " + std::to_string(kMaxHosts) + " hosts");
    }
    std::ranges::move(more, std::back_inserter(hosts));
  }
  return hosts;
}

std::vector<int> expand_slurm_counts(const std::string& variable, std::string_view list) {
  const Field field{.variable = variable,
                    .value = std::string(list),
                    .expected = "numbers with repetitions, for example 2(x3),1"};
  std::vector<int> counts;
  if (list.empty() || list.back() == ',') field.refuse("an entry is empty");
  while (!list.empty()) {
    std::string_view entry = take_entry(list);
    std::size_t times = 1;
    if (const std::size_t open = entry.find("(x"); open != std::string_view::npos) {
      if (!entry.ends_with(')')) field.refuse("a '(' has no ')'");
      const std::string_view digits = entry.substr(open + 2, entry.size() - open - 3);
      if (digits.empty()) field.refuse("a repetition has no number");
      times = static_cast<std::size_t>(number_in_field<int>(field, digits));
      entry = entry.substr(0, open);
    }
    if (entry.empty()) field.refuse("an entry is empty");
    const int count = number_in_field<int>(field, entry);
    if (times > kMaxHosts - counts.size()) {
      field.refuse("more than " + std::to_string(kMaxHosts) + " hosts");
    }
    counts.insert(counts.end(), times, count);
  }
  return counts;
}

std::vector<HostSpec> slurm_hosts(const Variables& variables) {
  const auto nodes = variables("SLURM_JOB_NODELIST");
  if (!nodes) {
    throw InputError(
        "--hosts-from slurm: SLURM_JOB_NODELIST is not set; expected the environment of a Slurm "
        "job: run pfc-coordinator in a script of sbatch, or under salloc");
  }
  if (const auto parts = variables("SLURM_HET_SIZE"); parts && *parts != "1") {
    throw InputError("SLURM_HET_SIZE '" + *parts +
                     "': this is a heterogeneous job; expected a job of one component, whose hosts "
                     "are all in SLURM_JOB_NODELIST");
  }
  const std::vector<std::string> names = expand_slurm_nodes("SLURM_JOB_NODELIST", *nodes);
  const std::vector<int> slots = slots_of_nodes(variables, names.size());
  std::vector<HostSpec> hosts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hosts.push_back({.name = names[i], .slots = slots.empty() ? 0 : slots[i]});
  }
  return checked_hosts("SLURM_JOB_NODELIST '" + *nodes + "'", "the hosts of the job, each once",
                       hosts);
}

}  // namespace pfc
