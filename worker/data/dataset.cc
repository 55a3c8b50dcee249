#include "worker/data/dataset.h"

#include <spdlog/fmt/fmt.h>

#include "common/error.h"
#include "worker/data/damaged_image.h"
#include "worker/data/images/decode.h"

namespace pfc {

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
