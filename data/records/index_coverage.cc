#include "data/records/index_coverage.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/counted.h"
#include "common/error.h"
#include "data/damaged_image.h"

namespace pfc {

namespace {

// Up to this many images, all gaps between records are checked; above it, only some gaps.
constexpr std::size_t kMostExact = 4096;
constexpr std::size_t kSample = 512;
// Limits the count of records before the first and after the last indexed record.
constexpr std::int64_t kMostCounted = 100'000;

/// Returns the offsets in ascending order without duplicates. Returns `offsets` itself if
/// possible, since a copy needs as much memory as the index. `storage` is for the copy.
std::span<const std::uint64_t> distinct(std::span<const std::uint64_t> offsets,
                                        std::vector<std::uint64_t>& storage) {
  const auto no_rise = std::ranges::adjacent_find(offsets, std::greater_equal<>());
  if (no_rise == offsets.end()) return offsets;
  storage.assign(offsets.begin(), offsets.end());
  std::ranges::sort(storage);
  const auto again = std::ranges::unique(storage);
  storage.erase(again.begin(), again.end());
  return storage;
}

/// Counts the records that start in [begin, end). Stops at damage.
std::int64_t records_between(const RecordReader& rec, std::uint64_t begin, std::uint64_t end) {
  std::int64_t count = 0;
  try {
    while (begin < end && count < kMostCounted) {
      begin = rec.record_end(begin);
      ++count;
    }
  } catch (const DamagedImage&) {
    // Records after the damage cannot be counted.
  }
  return count;
}

/// Counts the records that start after the record at `offset`.
std::int64_t records_behind(const RecordReader& rec, std::uint64_t offset, std::uint64_t end) {
  return std::max<std::int64_t>(records_between(rec, offset, end) - 1, 0);
}

}  // namespace

IndexCoverage index_coverage(const RecordReader& rec, std::span<const std::uint64_t> offsets) {
  check(!offsets.empty(), "index_coverage: no offsets");
  std::vector<std::uint64_t> storage;
  const std::span<const std::uint64_t> named = distinct(offsets, storage);
  const std::size_t gaps = named.size() - 1;
  const std::size_t looked_at = gaps <= kMostExact ? gaps : kSample;
  std::int64_t inside = 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::size_t gap = i * gaps / looked_at;
    inside += records_behind(rec, named[gap], named[gap + 1]);
  }
  if (looked_at < gaps) {
    inside = std::llround(static_cast<double>(inside) * static_cast<double>(gaps) /
                          static_cast<double>(looked_at));
  }
  const std::int64_t before = records_between(rec, 0, named.front());
  const std::int64_t behind = records_behind(rec, named.back(), rec.bytes());
  return {.lines = static_cast<std::int64_t>(offsets.size()),
          .records = static_cast<std::int64_t>(named.size()),
          .unnamed = before + inside + behind,
          .between = inside,
          .behind = behind,
          .exact = looked_at == gaps && std::max(before, behind) < kMostCounted};
}

std::vector<std::string> index_warnings(const IndexCoverage& c, bool all_are_images,
                                        const std::string& origin, const std::string& rec) {
  if (c.lines > 1 && c.records == 1) {
    throw InputError(
        fmt::format("{}: all {} lines for images name the same record of {}: this is not its "
                    "index; create the index again, or delete it (the .rec is then scanned)",
                    origin, c.lines, rec));
  }
  std::vector<std::string> warnings;
  if (c.records < c.lines) {
    warnings.push_back(fmt::format("{}: {} lines for images name only {} different records of {}",
                                   origin, c.lines, c.records, rec));
  }
  if (all_are_images && c.unnamed > 0) {
    warnings.push_back(fmt::format(
        "{}: {}{} of {} have no line in this index, {}{} of them after the last record with a "
        "line. They are not used. If the index is not truncated but omits them on purpose, set "
        "num_image in the job to check the number of images",
        origin, c.exact ? "" : "about ", counted(c.unnamed, "record"), rec, c.exact ? "" : "about ",
        c.behind));
  }
  return warnings;
}

}  // namespace pfc
