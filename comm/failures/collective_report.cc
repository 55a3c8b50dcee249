#include "comm/failures/collective_report.h"

#include <algorithm>
#include <sstream>

#include "common/clock.h"
#include "common/error.h"
#include "common/workers/store_keys.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCoordinatorPatience{500};  // it normally answers immediately

std::optional<Collective> decode(const std::vector<char>& value) {
  std::istringstream in(std::string(value.begin(), value.end()));
  Collective c;
  if (!(in >> c.number >> c.bytes)) return std::nullopt;
  in >> c.kind;  // empty before the first collective
  return c;
}

std::string last_of(const Collective& c) {
  return c.number == 0 ? "it has begun no collective" : "its last collective is " + to_text(c);
}

}  // namespace

std::string to_text(const Collective& c) {
  const std::string size = c.bytes == 0 ? "" : " of " + std::to_string(c.bytes) + " bytes";
  return c.kind + size + " (number " + std::to_string(c.number) + ")";
}

CollectiveReports::CollectiveReports(KeyValueStore& store, const std::string& comm_name,
                                     const Membership& me)
    : store_(store), prefix_(comm_name + "/at/"), me_(me) {}

std::string CollectiveReports::key(Rank rank) const { return prefix_ + std::to_string(rank); }

void CollectiveReports::tell(const Collective& newest) const {
  const std::string value =
      std::to_string(newest.number) + " " + std::to_string(newest.bytes) + " " + newest.kind;
  try {
    store_.set(key(me_.rank), {value.begin(), value.end()});
  } catch (const CommError&) {
    // The coordinator is unreachable too; the collective's own error is more useful.
  }
}

std::vector<std::optional<Collective>> CollectiveReports::ask(milliseconds patience) const {
  const TimePoint deadline = Clock::now() + patience;
  std::vector<std::optional<Collective>> reports(static_cast<std::size_t>(me_.world_size));
  for (Rank rank = 0; rank < me_.world_size; ++rank) {
    if (rank == me_.rank) continue;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    try {
      reports[static_cast<std::size_t>(rank)] =
          decode(store_.get(key(rank), std::max(left, milliseconds(1))));
    } catch (const CommError&) {
      // No report from this rank: it stays nullopt.
    }
  }
  return reports;
}

std::string CollectiveReports::doing(Rank rank) const {
  try {
    const auto text = store_.get(doing_key(rank), kCoordinatorPatience);
    return {text.begin(), text.end()};
  } catch (const CommError&) {
    return {};
  }
}

std::string CollectiveReports::culprits(const Collective& mine, std::span<const std::string> places,
                                        milliseconds patience) const {
  const std::vector<std::optional<Collective>> reports = ask(patience);
  std::string text = name_culprits(mine, me_.rank, reports, places);
  constexpr int kMost = 8;
  int told = 0;
  for (Rank rank = 0; rank < me_.world_size && told < kMost; ++rank) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    if (rank == me_.rank || (report && report->number >= mine.number)) continue;
    ++told;
    const std::string what = doing(rank);
    if (!what.empty()) text += "; rank " + std::to_string(rank) + " is " + what;
  }
  return text;
}

std::string name_culprits(const Collective& mine, Rank me,
                          std::span<const std::optional<Collective>> reports,
                          std::span<const std::string> places) {
  std::string found, silent;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    if (r == static_cast<std::size_t>(me)) continue;
    const std::string who = "rank " + std::to_string(r) + " (" + places[r] + ")";
    const std::optional<Collective>& report = reports[r];
    if (!report) {
      silent += (silent.empty() ? "" : ", ") + who;
    } else if (report->number < mine.number) {
      found += (found.empty() ? "" : "; ") + who + " has not begun it: " + last_of(*report);
    } else if (report->number == mine.number &&
               (report->kind != mine.kind || report->bytes != mine.bytes)) {
      found += (found.empty() ? "" : "; ") + who + " has begun " + to_text(*report) + " instead";
    }
  }
  if (!silent.empty()) {
    found += (found.empty() ? "" : "; ") + std::string("no report from ") + silent +
             ": stuck elsewhere, or dead";
  }
  if (found.empty()) found = "all workers have begun it: check the network and the GPUs";
  return found;
}

}  // namespace pfc
