// Writes small training folders in RecordIO for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/writing/record_writer.h"
#include "tests/support/encoded_images.h"

namespace pfc::testing {

struct FaceFolder {
  std::filesystem::path folder;
  std::int64_t identities = 5;
  std::int64_t images_per_identity = 4;
  int height = 16;
  int width = 16;

  [[nodiscard]] std::int64_t images() const { return identities * images_per_identity; }
  /// Image i, counted from 0, shows identity i / images_per_identity.
  [[nodiscard]] std::int64_t label(std::int64_t image) const { return image / images_per_identity; }
  [[nodiscard]] std::vector<std::byte> encoded(std::int64_t image) const {
    return make_jpeg(height, width, static_cast<unsigned>(image));
  }
};

/// Writes InsightFace's layout: record 0, images 1 to n, identity records, train.idx and property.
inline void write_insightface(const FaceFolder& f) {
  RecordWriter writer(f.folder / "train.rec", f.folder / "train.idx");
  writer.append(0, encode_record_zero(f.images(), f.identities));
  for (std::int64_t i = 0; i < f.images(); ++i) {
    writer.append(i + 1,
                  encode_image_record(f.label(i), static_cast<std::uint64_t>(i + 1), f.encoded(i)));
  }
  for (std::int64_t c = 0; c < f.identities; ++c) {
    const std::int64_t key = f.images() + 1 + c;
    const std::int64_t first = 1 + c * f.images_per_identity;
    writer.append(key, encode_identity_record(key, first, first + f.images_per_identity));
  }
  writer.close();
  write_property(f.folder / "property", {f.identities, f.height, f.width});
}

}  // namespace pfc::testing
