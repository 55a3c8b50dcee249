// One bad image among good ones: what training skips and counts instead of ending.
#pragma once

#include "common/error.h"

namespace pfc {

/// A record or image that does not read whole: wrong magic, cut short, no JPEG or PNG, another
/// size. Whoever can go on without it catches this; as an InputError it names what was found and
/// expected.
class DamagedImage : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace pfc
