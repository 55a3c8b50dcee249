// Camera model: turns a rendered picture into sRGB bytes with blur, exposure, colour balance and
// noise.
#pragma once

#include <cstdint>
#include <vector>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/render/renderer.h"

namespace pfc::synth {

/// Returns sRGB bytes [size, size, 3]. Averages a larger picture down to `size`.
std::vector<std::uint8_t> develop(Picture picture, const Camera& camera, int size);

}  // namespace pfc::synth
