// Error for a damaged image, which training skips and counts.
#pragma once

#include "common/error.h"

namespace pfc {

/// A record or image that cannot be read: wrong magic number, truncated, unknown format, or wrong
/// size. The message says what was found and what was expected. Callers that do not need the image
/// catch this error.
class DamagedImage : public InputError {
 public:
  using InputError::InputError;
};

/// Runs `work`, which reads one image, and converts InputError to DamagedImage.
template <typename Work>
auto as_damaged_image(Work work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw DamagedImage(error.what());
  }
}

}  // namespace pfc
