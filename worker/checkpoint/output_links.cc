#include "worker/checkpoint/output_links.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/rank_zero.h"
#include "common/clock.h"
#include "common/files/atomic_file.h"
#include "common/random_id.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLinkPollInterval{100};

/// Owns the probe file, and removes it after the search or a failure.
class Probe {
 public:
  explicit Probe(fs::path file) : file_(std::move(file)) {}
  ~Probe() {
    std::error_code ignored;  // the next job removes a file that stays
    fs::remove(file_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  const fs::path file_;
};

bool holds(const fs::path& file, const std::string& content) {
  std::string found(content.size() + 1, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(found.data(), static_cast<std::streamsize>(found.size()));
  found.resize(static_cast<std::size_t>(stream.gcount()));
  return found == content;
}

bool finds(const fs::path& file, const std::string& content, milliseconds patience) {
  const TimePoint deadline = Clock::now() + patience;
  while (!holds(file, content)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLinkPollInterval);
    // On NFS, opening a folder makes the client ask the server whether it has changed.
    std::error_code ignored;
    const fs::directory_iterator opened(file.parent_path(), ignored);
  }
  return true;
}

}  // namespace

bool OutputLinks::shared() const { return std::ranges::find(sees, false) == sees.end(); }

bool OutputLinks::only_one_host_sees(std::span<const std::string> hosts) const {
  if (hosts.empty() || sees.empty()) return false;
  for (std::size_t rank = 1; rank < sees.size(); ++rank) {
    if (sees[rank] && hosts[rank] != hosts.front()) return false;
  }
  return true;
}

std::vector<Comm*> OutputLinks::comms() const {
  std::vector<Comm*> all;
  for (const OutputLink& link : remote) all.push_back(link.comm.get());
  if (to_rank_zero) all.push_back(to_rank_zero.get());
  return all;
}

std::vector<bool> who_sees(Comm& comm, const fs::path& output, milliseconds patience) {
  const std::string content = from_rank_zero(comm, random_id());
  const fs::path file = output / checkpoint_format::probe_name(content);
  std::unique_ptr<Probe> probe;
  on_rank_zero(comm, [&] {
    probe = std::make_unique<Probe>(file);
    write_file_atomically(file, content);
  });
  std::uint8_t mine = finds(file, content, patience) ? 1 : 0;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(&mine, DType::kUInt8, {1}),
                  Tensor(all.data(), DType::kUInt8, {comm.size()}));
  return {all.begin(), all.end()};
}

void connect_links(OutputLinks& links, Rank rank, std::span<const std::string> hosts,
                   const std::function<std::unique_ptr<Comm>(Rank other)>& make) {
  const auto index = static_cast<std::size_t>(rank);
  if (rank != 0 && !links.sees[index]) links.to_rank_zero = make(rank);
  if (rank != 0) return;
  for (std::size_t other = 1; other < links.sees.size(); ++other) {
    if (links.sees[other]) continue;
    links.remote.push_back(
        {static_cast<Rank>(other), hosts[other], make(static_cast<Rank>(other))});
  }
}

std::string not_shared_message(const OutputLinks& links, std::span<const std::string> hosts,
                               const fs::path& output) {
  const std::string folder = output.string();
  return "output: " + folder + " is not shared: the folder of host " + links.host +
         " is used, and checkpoints are sent over the network to and from " +
         hosts_without(links.sees, hosts);
}

std::string hosts_without(const std::vector<bool>& sees, std::span<const std::string> hosts) {
  std::string text;
  for (std::size_t rank = 0; rank < sees.size(); ++rank) {
    if (sees[rank] ||
        std::ranges::find(hosts.first(rank), hosts[rank]) != hosts.first(rank).end()) {
      continue;
    }
    text += (text.empty() ? "" : ", ") + hosts[rank];
  }
  return text;
}

}  // namespace pfc
