// The error of one damaged image, which training skips and counts.
#pragma once

#include "common/error.h"

namespace pfc {

/// A record or image that cannot be read: wrong magic number, cut short, neither JPEG nor PNG, or
/// of another size. A caller that can go on without the image catches it. The message says what was
/// found and what was expected.
class DamagedImage : public InputError {
 public:
  using InputError::InputError;
};

/// Runs `work`, which reads one image. An InputError in it becomes a DamagedImage.
template <typename Work>
auto as_damaged_image(Work work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw DamagedImage(error.what());
  }
}

}  // namespace pfc
