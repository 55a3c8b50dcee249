#include "worker/data/records/record_part.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "worker/data/damaged_image.h"
#include "worker/data/records/index_coverage.h"
#include "worker/data/records/record_index.h"

namespace pfc {

namespace {

/// A .rec that lost its end still has all its keys in the .idx; a record cut in two is only seen at
/// the place of the greatest offset. An .idx that was cut in the middle of a number has another
/// one in its last line.
void check_last_record(const RecordReader& rec, std::span<const std::uint64_t> offsets) {
  (void)rec.record_end(*std::ranges::max_element(offsets));
  (void)rec.record_end(offsets.back());
}

}  // namespace

RecordPart::RecordPart(const std::filesystem::path& rec, const Doing& doing) : rec_(rec) {
  const std::filesystem::path idx = std::filesystem::path(rec).replace_extension(".idx");
  const bool indexed = something_at(idx);
  index_ = indexed ? idx : rec;
  layout_ =
      find_images(rec_, indexed ? read_record_index(idx, rec_, doing) : scan_records(rec_, doing),
                  index_.string());
  check_last_record(rec_, layout_.offsets);
  if (!indexed) return;
  // In InsightFace's layout no image is without a line, and the other records are no images.
  const bool all_are_images = layout_.identities == 0;
  warnings_ = index_warnings(index_coverage(rec_, layout_.offsets), all_are_images, index_.string(),
                             rec.string());
}

RecordPart::Read RecordPart::record(std::int64_t image, std::vector<std::byte>& storage) const {
  check(image >= 0 && image < images(), "Dataset: no such image");
  const std::uint64_t offset = layout_.offsets[static_cast<std::size_t>(image)];
  try {
    const auto payload = rec_.read(offset, storage);
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

std::string RecordPart::name(std::int64_t image) const {
  const auto i = static_cast<std::size_t>(image);
  return fmt::format("{}: record {} (offset {})", path().string(), layout_.key(i),
                     layout_.offsets.at(i));
}

}  // namespace pfc
