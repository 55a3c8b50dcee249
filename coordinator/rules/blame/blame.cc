#include "coordinator/rules/blame/blame.h"

#include <algorithm>

namespace pfc {
namespace {

int remembered(const FailureRecord& record, TimePoint now) {
  if (now <= record.last) return record.failures;
  const auto forgiven = (now - record.last) / kForgiveness;
  return forgiven >= record.failures ? 0 : record.failures - static_cast<int>(forgiven);
}

bool concerns(const FailureRecord& record, const std::string& host, int slot) {
  return record.host == host && (record.slot == slot || record.slot == kWholeHost);
}

}  // namespace

int failures_of(const FailureHistory& blame, const std::string& host, int slot, TimePoint now) {
  for (const FailureRecord& record : blame.records) {
    if (record.host == host && record.slot == slot) return remembered(record, now);
  }
  return 0;
}

void add_failure(FailureHistory& blame, const std::string& host, int slot, int weight,
                 const std::string& cause, TimePoint now) {
  std::erase_if(blame.records, [&](const FailureRecord& record) {
    return remembered(record, now) == 0 && !is_left_out(record, now);
  });
  auto record = std::ranges::find_if(blame.records, [&](const FailureRecord& each) {
    return each.host == host && each.slot == slot;
  });
  if (record == blame.records.end()) {
    record = blame.records.insert(record, {.host = host, .slot = slot, .last = now, .cause = {}});
  }
  record->failures = remembered(*record, now) + weight;
  record->last = std::max(record->last, now);
  record->cause = cause;
}

bool is_at_limit(const FailureRecord& record, TimePoint now) {
  return remembered(record, now) >= (record.slot == kWholeHost ? kHostLimit : kSlotLimit);
}

void leave_out(FailureRecord& record, TimePoint now) {
  constexpr int kMostDoublings = 10;
  const auto time = kFirstLeftOut * (1 << std::min(record.times_left_out, kMostDoublings));
  record.until = now + std::min<std::chrono::minutes>(time, kLongestLeftOut);
  record.times_left_out += 1;
  record.last = *record.until;  // the exclusion does not count as time without failures
}

bool is_left_out(const FailureRecord& record, TimePoint now) {
  return record.until && now < *record.until;
}

bool is_left_out(const FailureHistory& blame, const std::string& host, int slot, TimePoint now) {
  return std::ranges::any_of(blame.records, [&](const FailureRecord& record) {
    return concerns(record, host, slot) && is_left_out(record, now);
  });
}

std::optional<TimePoint> admitted_at(const FailureHistory& blame, const std::string& host,
                                     int slot) {
  std::optional<TimePoint> last;
  for (const FailureRecord& record : blame.records) {
    if (concerns(record, host, slot) && record.until) last = std::max(last, record.until);
  }
  return last;
}

std::string name_of(const FailureRecord& record) {
  if (record.slot == kWholeHost) return "host " + record.host;
  return "slot " + std::to_string(record.slot) + " of host " + record.host;
}

}  // namespace pfc
