// Builds the surfaces of one photograph (head, ears, neck, hair, hat, glasses) and draws them into
// a raster.
#pragma once

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/hair.h"
#include "pfcctl/synth/face/head_shape.h"
#include "pfcctl/synth/render/raster.h"
#include "pfcctl/synth/render/view.h"

namespace pfc::synth {

struct Scene {
  const Identity& who;
  const Capture& capture;
  const HeadShape& shape;
  const HairStyle& hair;
  const View& view;
  ScreenMap screen;
};

void draw_surfaces(const Scene& scene, Raster& raster);

}  // namespace pfc::synth
