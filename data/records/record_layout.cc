#include "data/records/record_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "common/error.h"
#include "data/records/image_record.h"

namespace pfc {

namespace {

constexpr std::uint64_t kMissing = std::numeric_limits<std::uint64_t>::max();

/// Returns the offset of each key from 0 to the largest key; kMissing for missing keys.
std::vector<std::uint64_t> offsets_by_key(const RecordIndex& index, const std::string& origin) {
  const std::int64_t greatest = *std::max_element(index.keys.begin(), index.keys.end());
  // Keys of an InsightFace file have no gaps; gaps are reported as missing keys below. This limit
  // prevents a huge allocation for an invalid key.
  if (greatest >= 2 * static_cast<std::int64_t>(index.keys.size()) + 2) {
    throw InputError(fmt::format("{}: found key {} among {} keys, expected keys 0 .. {}", origin,
                                 greatest, index.keys.size(), index.keys.size() - 1));
  }
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(greatest) + 1, kMissing);
  for (std::size_t i = 0; i < index.keys.size(); ++i) {
    std::uint64_t& offset = offsets[static_cast<std::size_t>(index.keys[i])];
    if (offset != kMissing) {
      throw InputError(fmt::format("{}: key {} appears twice", origin, index.keys[i]));
    }
    offset = index.offsets[i];
  }
  return offsets;
}

/// Counts in record 0.
struct RecordZero {
  std::int64_t images = 0;
  std::int64_t identities = 0;
};

/// Reads record 0: in InsightFace's layout two labels and no image, otherwise an image.
std::optional<RecordZero> read_record_zero(const RecordReader& rec, const RecordIndex& index) {
  const auto zero = std::find(index.keys.begin(), index.keys.end(), 0);
  if (zero == index.keys.end()) return std::nullopt;
  const std::uint64_t offset = index.offsets[static_cast<std::size_t>(zero - index.keys.begin())];
  ImageBuffer storage;
  const auto record = parse_image_record(rec.read(offset, storage));
  if (!record || record->flag == 0 || !record->image.empty()) return std::nullopt;
  const auto count = [&](std::size_t i) {
    return i < record->flag ? static_cast<double>(record->label_at(i)) : 0.0;
  };
  const double images = count(0) - 1;
  const double identities = count(1) - count(0);
  if (!(images >= 1 && identities >= 1 && images + identities < 1e12)) {
    throw InputError(
        fmt::format("{}: record 0 says [{}, {}], expected [images + 1, images + 1 + identities]",
                    rec.path().string(), count(0), count(1)));
  }
  return RecordZero{std::llround(images), std::llround(identities)};
}

bool is_image_record(const RecordReader& rec, std::uint64_t offset) {
  ImageBuffer storage;
  const auto record = parse_image_record(rec.read(offset, storage));
  return record && !record->image.empty();
}

/// Corrects the counts in record 0, which above 2^24 are rounded, because they are float32. The
/// exact counts follow from where identity records start after the images, and from the last key.
/// 2^24 itself may be a rounded 2^24 + 1.
RecordZero undo_rounding(const RecordReader& rec, const std::vector<std::uint64_t>& offsets,
                         RecordZero zero) {
  if (zero.images + zero.identities + 1 < kMaxFloatLabel) return zero;
  const auto keys = static_cast<std::int64_t>(offsets.size());
  const auto image_at = [&](std::int64_t key) {
    const std::uint64_t offset = offsets[static_cast<std::size_t>(key)];
    return offset != kMissing && is_image_record(rec, offset);
  };
  zero.images = std::min(zero.images, keys - 1);
  while (zero.images + 1 < keys && image_at(zero.images + 1)) ++zero.images;
  while (zero.images > 0 && !image_at(zero.images)) --zero.images;
  if (keys - 1 > zero.images) zero.identities = keys - 1 - zero.images;
  return zero;
}

RecordLayout insightface_layout(const RecordReader& rec, const RecordIndex& index, RecordZero zero,
                                const std::string& origin) {
  RecordLayout layout;
  layout.offsets = offsets_by_key(index, origin);
  zero = undo_rounding(rec, layout.offsets, zero);
  const auto images = static_cast<std::size_t>(zero.images);
  for (std::size_t key = 1; key <= images; ++key) {
    if (key >= layout.offsets.size() || layout.offsets[key] == kMissing) {
      throw InputError(fmt::format("{}: key {} is missing: record 0 of {} announces images 1 .. {}",
                                   origin, key, rec.path().string(), images));
    }
  }
  layout.offsets.resize(images + 1);
  layout.offsets.erase(layout.offsets.begin());
  layout.offsets.shrink_to_fit();
  layout.identities = zero.identities;
  return layout;
}

bool counts_up(const std::vector<std::int64_t>& keys) {
  return std::ranges::adjacent_find(
             keys, [](std::int64_t a, std::int64_t b) { return b != a + 1; }) == keys.end();
}

}  // namespace

RecordLayout find_images(const RecordReader& rec, RecordIndex index, const std::string& origin) {
  if (index.keys.empty()) {
    throw InputError(origin + ": no records; expected at least one image");
  }
  if (const auto zero = read_record_zero(rec, index)) {
    return insightface_layout(rec, index, *zero, origin);
  }
  index.offsets.shrink_to_fit();
  if (counts_up(index.keys)) {
    return {.offsets = std::move(index.offsets),
            .keys = {},
            .first_key = index.keys.front(),
            .identities = 0};
  }
  std::vector<std::int64_t> sorted = index.keys;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw InputError(fmt::format("{}: key {} appears twice", origin, *twice));
  }
  return {.offsets = std::move(index.offsets),
          .keys = std::move(index.keys),
          .first_key = 0,
          .identities = 0};
}

}  // namespace pfc
