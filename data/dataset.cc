#include "data/dataset.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"

namespace pfc {

Sample Dataset::read(std::int64_t image, ImageBuffer& buffer,
                     std::span<const std::byte> ahead) const {
  check(image >= 0 && image < info().images, "Dataset: no such image");
  StoredImage stored(extent(image), ahead, buffer);
  return parse(image, stored);
}

void Dataset::other_labels(std::int64_t /*image*/, std::span<std::int64_t> others) const {
  std::ranges::fill(others, std::int64_t{-1});
}

ImageSize first_image_size(const Dataset& dataset) {
  constexpr std::int64_t kMost = 1000;
  ImageBuffer storage;
  ImageDecoder decoder;
  std::string why;  // why the first image cannot be read
  for (std::int64_t i = 0; i < std::min(kMost, dataset.info().images); ++i) {
    try {
      return decoder.size(dataset.read(i, storage).encoded);
    } catch (const InputError& e) {  // includes DamagedImage
      if (i == 0) why = e.what();
    }
  }
  const std::string name = dataset.name(0);
  throw InputError(
      fmt::format("{}{}; there is neither a property file nor image_size, and none of the first "
                  "images can be read to find their size",
                  why.starts_with(name) ? "" : name + ": ", why));
}

void expect_one_label(const Dataset& dataset, const std::string& user) {
  if (dataset.info().labels_per_image == 1) return;
  throw InputError(fmt::format(
      "{}: found up to {} labels for an image, but {} needs exactly one; use a list with one label "
      "per image",
      dataset.briefs().front().file.string(), dataset.info().labels_per_image, user));
}

void warn_of_least_label(DatasetInfo& info, std::int64_t least, const std::string& origin) {
  if (least <= 0) return;
  info.warnings.push_back(fmt::format(
      "{}: the smallest label is {}, but labels begin at 0: the job also trains {} without an "
      "image",
      origin, least, least == 1 ? "a class" : fmt::format("{} classes", least)));
}

}  // namespace pfc
