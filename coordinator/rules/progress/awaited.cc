#include "coordinator/rules/progress/awaited.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

namespace pfc {
namespace {

// Purpose of the communicators between rank 0 and each other worker. Rank 0 reports their totals.
constexpr std::string_view kOfPairs = "output";

bool is_in_one(const proto::CommTotal& comm) { return comm.done() < comm.calls(); }

/// Progress of the workers in one communicator.
struct Front {
  std::uint64_t newest = 0;  ///< highest number of a collective that a worker has begun
  std::string kind;
  int waiting = 0;  ///< workers that wait in this collective
  /// Lowest and second lowest number of finished collectives.
  std::uint64_t least = kNone, second_least = kNone;

  static constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
};

using Fronts = std::map<std::string_view, Front>;

Fronts fronts_of(std::span<const Standing> workers) {
  Fronts all;
  for (const Standing& worker : workers) {
    for (const proto::CommTotal& comm : worker.progress->comm()) {
      if (comm.purpose() == kOfPairs) continue;
      Front& front = all[comm.purpose()];
      front.second_least = std::min(front.second_least, std::max(front.least, comm.done()));
      front.least = std::min(front.least, comm.done());
      if (comm.calls() > front.newest) {
        front.newest = comm.calls();
        front.waiting = 0;
      }
      if (comm.calls() < front.newest || !is_in_one(comm)) continue;
      front.kind = comm.newest();
      ++front.waiting;
    }
  }
  return all;
}

/// Returns whether the worker is in a collective that another worker has not finished either. A
/// worker does not wait if all others have finished the collective.
bool waits(const proto::CommTotal& comm, const Fronts& all) {
  const auto found = all.find(comm.purpose());
  if (!is_in_one(comm) || found == all.end()) return is_in_one(comm);
  const Front& front = found->second;
  const std::uint64_t of_others = comm.done() == front.least ? front.second_least : front.least;
  return of_others < comm.calls();
}

std::optional<Awaited> awaited_in(const Standing& worker, const Fronts& all) {
  const auto waits_in = [&](const proto::CommTotal& comm) { return waits(comm, all); };
  if (std::ranges::any_of(worker.progress->comm(), waits_in)) return {};
  for (const proto::CommTotal& comm : worker.progress->comm()) {
    const auto found = all.find(comm.purpose());
    if (found == all.end()) continue;
    const Front& front = found->second;
    if (front.waiting == 0 || comm.calls() >= front.newest) continue;
    return Awaited{.rank = worker.rank,
                   .purpose = comm.purpose(),
                   .kind = front.kind,
                   .number = front.newest,
                   .waiting = front.waiting};
  }
  return {};
}

}  // namespace

std::vector<Awaited> find_awaited(std::span<const Standing> workers) {
  const Fronts all = fronts_of(workers);
  std::vector<Awaited> found;
  for (const Standing& worker : workers) {
    if (auto awaited = awaited_in(worker, all)) found.push_back(std::move(*awaited));
  }
  return found;
}

std::string to_text(const Awaited& awaited) {
  const bool one = awaited.waiting == 1;
  return "while " + std::to_string(awaited.waiting) +
         (one ? " other worker waits" : " other workers wait") + " for it in " + awaited.kind +
         " (number " + std::to_string(awaited.number) + " of communicator '" + awaited.purpose +
         "')";
}

}  // namespace pfc
