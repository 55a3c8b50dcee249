#include "worker/data/dataset.h"

#include <spdlog/fmt/fmt.h>

#include "common/error.h"
#include "worker/data/damaged_image.h"
#include "worker/data/images/decode.h"
#include "worker/data/layouts/layout.h"
#include "worker/data/records/record_dataset.h"

namespace pfc {

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  const Location found = find_layout(options.rec);
  DatasetOptions there = options;
  there.rec = found.path;
  switch (found.layout) {
    case Layout::kRecordIO:
      return open_record_dataset(there);
  }
  throw std::logic_error("open_dataset: no such layout");
}

ImageSize first_image_size(const Dataset& dataset) {
  std::vector<std::byte> storage;
  try {
    return ImageDecoder().size(dataset.read(0, storage).encoded);
  } catch (const DamagedImage& e) {
    throw InputError(fmt::format(
        "{}: {}; without a property file and image_size the first image gives the size of all",
        dataset.name(0), e.what()));
  }
}

}  // namespace pfc
