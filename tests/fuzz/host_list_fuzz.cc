// Lists of hosts. The first byte selects the source; the rest is --hosts, a host file, or a
// scheduler's variables, one per line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "coordinator/allocation/allocation.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temporary_folder.h"

namespace {

/// Returns the lines of the input as variables: line n is the n-th variable that is read.
pfc::Variables lines_of(std::string_view input) {
  return [input](const char*) mutable -> std::optional<std::string> {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string line(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
    if (line.empty()) return {};
    return line;
  };
}

std::vector<pfc::HostSpec> hosts_of(std::uint8_t kind, std::string_view input) {
  static const pfc::TemporaryFolder folder;
  switch (kind % 5) {
    case 0:
      return pfc::parse_hosts(input);
    case 1:
      std::ofstream(folder / "hosts") << input;
      return pfc::read_hosts_file(folder / "hosts");
    case 2:
      return pfc::allocated_hosts(pfc::Launcher::kSlurm, lines_of(input));
    case 3:
      return pfc::allocated_hosts(pfc::Launcher::kKubernetes, lines_of(input));
    default:
      return pfc::allocated_hosts(
          pfc::Launcher::kMpi, [input](const char* name) -> std::optional<std::string> {
            const bool counts = std::string_view(name) == "LSB_MCPU_HOSTS";
            return counts == input.starts_with('+') ? std::optional(std::string(input))
                                                    : std::nullopt;
          });
  }
}

}  // namespace

std::vector<std::string> pfc::fuzz::seeds() {
  using namespace std::string_literals;
  return {"\0localhost:2"s,
          "\0ip1:8,host2:8,[2001:db8::7]:8"s,
          "\0a,b:3,c.example.org:16"s,
          "\1a slots=8\nb:4 # four\n[fe80::1%eth0]:2\n\n# none\n10.0.0.1 slots=1 max_slots=2\n",
          "\2gpu[001-004,017],login\n2(x3),1\n8\n",
          "\3pfc-agent\n4\npfc\ndefault\n8\n",
          "\4a b b c",
          "\4+ a 8 b 8"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (hosts_of(data[0], input).size() > pfc::kMaxHosts) __builtin_trap();
  } catch (const pfc::InputError&) {
  }
  return 0;
}
