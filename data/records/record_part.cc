#include "data/records/record_part.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "common/files/regular_file.h"
#include "data/damaged_image.h"
#include "data/records/index_coverage.h"
#include "data/records/record_index.h"

namespace pfc {

namespace {

/// Returns whether few records between images are missing in the index. An extent ends at the next
/// indexed record, so these records are read too.
bool leaves_out_few(const IndexCoverage& coverage) {
  return coverage.between <= coverage.records / 8;
}

}  // namespace

RecordPart::RecordPart(const std::filesystem::path& rec, const Doing& doing) : rec_(rec) {
  const std::filesystem::path idx = std::filesystem::path(rec).replace_extension(".idx");
  const bool indexed = something_at(idx);
  index_ = indexed ? idx : rec;
  layout_ =
      find_images(rec_, indexed ? read_record_index(idx, rec_, doing) : scan_records(rec_, doing),
                  index_.string());
  check_last_record();
  if (!indexed) return;
  // In InsightFace's layout every image has a line, and the other records are not images.
  const bool all_are_images = layout_.identities == 0;
  const IndexCoverage coverage = index_coverage(rec_, layout_.offsets);
  warnings_ = index_warnings(coverage, all_are_images, index_.string(), rec.string());
  in_order_ = in_order_ && leaves_out_few(coverage);
}

/// Detects truncated files. If the .rec was truncated, the .idx still has all keys, and only the
/// record at the largest offset is incomplete or missing. If the .idx was cut within a number, its
/// last line has a wrong offset.
void RecordPart::check_last_record() {
  end_ = rec_.record_end(*std::ranges::max_element(layout_.offsets));
  in_order_ = std::ranges::is_sorted(layout_.offsets);
  (void)rec_.record_end(layout_.offsets.back());
}

RecordPart::Read RecordPart::parse(std::int64_t image, StoredImage& stored) const {
  const std::uint64_t offset = layout_.offsets[static_cast<std::size_t>(image)];
  try {
    const auto payload = rec_.payload(offset, stored);
    const auto parsed = parse_image_record(payload);
    if (parsed) return {payload, *parsed};
    throw DamagedImage(
        fmt::format("{}: offset {}: a record of {} bytes is too short for its image "
                    "header and labels",
                    path().string(), offset, payload.size()));
  } catch (const DamagedImage& e) {
    throw DamagedImage(
        fmt::format("{} (record {})", e.what(), layout_.key(static_cast<std::size_t>(image))));
  }
}

Extent RecordPart::extent(std::int64_t image) const {
  const auto at = layout_.offsets.begin() + image;
  if (!in_order_) return rec_.extent(*at);
  auto next = at + 1;
  // Several lines of an index may refer to the same record.
  if (next != layout_.offsets.end() && *next == *at) {
    next = std::upper_bound(next, layout_.offsets.end(), *at);
  }
  return rec_.extent(*at, next == layout_.offsets.end() ? end_ : *next);
}

std::string RecordPart::name(std::int64_t image) const {
  const auto i = static_cast<std::size_t>(image);
  return fmt::format("{}: record {} (offset {})", path().string(), layout_.key(i),
                     layout_.offsets.at(i));
}

}  // namespace pfc
