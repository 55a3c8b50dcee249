#include "coordinator/progress/awaited.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace pfc {
namespace {

// Rank 0 has one for each worker that does not see the output folder, and their numbers are added.
constexpr std::string_view kOfPairs = "output";

bool waits(const proto::CommTotal& comm) { return comm.done() < comm.calls(); }

/// The newest collective of one communicator that somebody has begun.
struct Newest {
  std::uint64_t number = 0;
  std::string kind;
  int waiting = 0;
};

using NewestByPurpose = std::map<std::string_view, Newest>;

NewestByPurpose newest_of(std::span<const Standing> workers) {
  NewestByPurpose all;
  for (const Standing& worker : workers) {
    for (const proto::CommTotal& comm : worker.progress->comm()) {
      if (comm.purpose() == kOfPairs) continue;
      Newest& newest = all[comm.purpose()];
      if (comm.calls() > newest.number) newest = {.number = comm.calls()};
      if (comm.calls() < newest.number || !waits(comm)) continue;
      newest.kind = comm.newest();
      ++newest.waiting;
    }
  }
  return all;
}

std::optional<Awaited> awaited_in(const Standing& worker, const NewestByPurpose& all) {
  if (std::ranges::any_of(worker.progress->comm(), waits)) return {};
  for (const proto::CommTotal& comm : worker.progress->comm()) {
    const auto found = all.find(comm.purpose());
    if (found == all.end()) continue;
    const Newest& newest = found->second;
    if (newest.waiting == 0 || comm.calls() >= newest.number) continue;
    return Awaited{.rank = worker.rank,
                   .purpose = comm.purpose(),
                   .kind = newest.kind,
                   .number = newest.number,
                   .waiting = newest.waiting};
  }
  return {};
}

}  // namespace

std::vector<Awaited> find_awaited(std::span<const Standing> workers) {
  const NewestByPurpose all = newest_of(workers);
  std::vector<Awaited> found;
  for (const Standing& worker : workers) {
    if (auto awaited = awaited_in(worker, all)) found.push_back(std::move(*awaited));
  }
  return found;
}

std::string to_text(const Awaited& awaited) {
  const bool one = awaited.waiting == 1;
  return "while " + std::to_string(awaited.waiting) + (one ? " other waits" : " others wait") +
         " for it in " + awaited.kind + " (number " + std::to_string(awaited.number) + " of '" +
         awaited.purpose + "')";
}

}  // namespace pfc
