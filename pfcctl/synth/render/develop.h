// What the camera makes of a rendered picture: blur, exposure, colour balance, noise, 8 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/render/renderer.h"

namespace pfc::synth {

/// sRGB bytes [size, size, 3]. The picture may be larger than `size` (it is averaged down) and is
/// used up.
std::vector<std::uint8_t> develop(Picture picture, const Camera& camera, int size);

}  // namespace pfc::synth
