#include "worker/start/host_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "comm/gather_texts.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "common/version.h"

namespace pfc {
namespace {

using nlohmann::json;

constexpr const char* kSameData = "give every host the same data";
constexpr std::size_t kHostsNamed = 4;
constexpr std::size_t kLongestFact = 4096;  // in bytes; usually a path

std::string shortened(const std::string& text) { return text.substr(0, kLongestFact); }

std::string encoded(const std::vector<HostFact>& facts) {
  json list = json::array();
  for (const HostFact& f : facts) {
    list.push_back({shortened(f.what), shortened(f.value), shortened(f.remedy)});
  }
  // A file name may be in any encoding.
  const auto text = [](const json& all) {
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  const std::string whole = text(list);
  if (whole.size() <= kLongestText) return whole;
  return text(json::array({json::array({"the list of its files",
                                        "SHA-256 " + sha256_hex(std::as_bytes(std::span(whole))),
                                        "give every host the same data"})}));
}

std::vector<HostFact> decoded(const std::string& text) {
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<HostFact> facts;
  if (!list.is_array()) return facts;
  for (const json& f : list) facts.push_back({f.at(0), f.at(1), f.at(2)});
  return facts;
}

/// Returns a text about the first difference: "host b: FILE has X, rank 0 on host a has Y; ...".
/// Returns nothing if there is none.
std::optional<std::string> difference(const std::string& host, const std::vector<HostFact>& found,
                                      const std::string& first_host,
                                      const std::vector<HostFact>& expected) {
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    if (found[i].value == expected[i].value) continue;
    return fmt::format("host {}: {} has {}, rank 0 on host {} has {}; {}", host, found[i].what,
                       found[i].value, first_host, expected[i].value, expected[i].remedy);
  }
  if (found.size() == expected.size()) return std::nullopt;
  return fmt::format("host {} has {} to compare, rank 0 on host {} has {}; {}", host,
                     counted(static_cast<long long>(found.size()), "file"), first_host,
                     expected.size(), kSameData);
}

/// Returns the first rank of each host.
std::vector<std::size_t> first_ranks(std::span<const std::string> hosts) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto before = hosts.first(rank);
    if (std::ranges::find(before, hosts[rank]) == before.end()) ranks.push_back(rank);
  }
  return ranks;
}

void expect_same(std::span<const std::string> hosts, const std::vector<std::string>& texts) {
  const std::vector<HostFact> expected = decoded(texts.front());
  std::string message;
  std::size_t others = 0;
  for (const std::size_t rank : first_ranks(hosts)) {
    if (texts[rank] == texts.front()) continue;
    const auto differs = difference(hosts[rank], decoded(texts[rank]), hosts.front(), expected);
    if (!differs || ++others > kHostsNamed) continue;
    message += (message.empty() ? "" : "; ") + *differs;
  }
  if (others > kHostsNamed) {
    message += "; and " + counted(static_cast<long long>(others - kHostsNamed), "other host");
  }
  if (!message.empty()) throw InputError(message);
}

std::vector<std::string> clock_warnings(std::span<const std::string> hosts,
                                        const std::vector<std::int64_t>& clocks_ms) {
  std::vector<std::string> warnings;
  for (const std::size_t rank : first_ranks(hosts)) {
    const std::int64_t ahead = clocks_ms[rank] - clocks_ms.front();
    if (std::abs(ahead) <= std::chrono::milliseconds(kClockTolerance).count()) continue;
    warnings.push_back(fmt::format(
        "host {}: its clock is {:.0f} s {} that of host {}: training does not depend on it, but "
        "times in its logs are wrong; synchronize both with a time server",
        hosts[rank], static_cast<double>(std::abs(ahead)) / 1000, ahead > 0 ? "ahead of" : "behind",
        hosts.front()));
  }
  return warnings;
}

}  // namespace

std::vector<HostFact> facts_of_host(const Dataset& dataset, const EvaluationSets& sets) {
  std::vector<HostFact> facts{
      {"pfc-worker", std::string("version ") + version(), "install the same version on all hosts"}};
  const auto add = [&](const Dataset& of) {
    for (const FileBrief& brief : of.briefs()) {
      facts.push_back({brief.file.string(), brief.holds, kSameData});
    }
  };
  add(dataset);
  for (const RetrievalSet& set : sets.retrieval) add(*set.dataset);
  for (const ClassificationSet& set : sets.classification) add(*set.dataset);
  for (const VerificationSet& set : sets.verification) {
    facts.push_back({set.file.string(),
                     fmt::format("{} images of {} bytes", set.images.size(), set.bytes()),
                     kSameData});
  }
  return facts;
}

std::vector<std::string> compare_hosts(Comm& comm, std::span<const std::string> hosts,
                                       const std::vector<HostFact>& facts, const WallClock& now) {
  expect_same(hosts, gather_texts(comm, encoded(facts)));

  comm.barrier();  // makes all workers read their clocks at the same time
  using std::chrono::milliseconds;
  std::int64_t mine = std::chrono::duration_cast<milliseconds>(now().time_since_epoch()).count();
  std::vector<std::int64_t> all(hosts.size());
  comm.all_gather(Tensor(&mine, DType::kInt64, {1}),
                  Tensor(all.data(), DType::kInt64, {comm.size()}));
  return comm.rank() == 0 ? clock_warnings(hosts, all) : std::vector<std::string>();
}

}  // namespace pfc
