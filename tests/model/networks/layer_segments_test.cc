#include "model/networks/layer_segments.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

const std::vector<LayerTraits> kLayers = {
    {true, 0}, {true, 10}, {true, 30}, {true, 30}, {true, 60}};

TEST(LayerSegments, HoldAllLayersInOrder) {
  EXPECT_EQ(segments_of(kLayers, 100, 40), (std::vector<Segment>{{0, 1}, {1, 4}, {4, 5}}));
  EXPECT_EQ(segments_of(kLayers, 100, 1000), (std::vector<Segment>{{0, 5}}));
  EXPECT_TRUE(segments_of({}, 0, 10).empty());
}

TEST(LayerSegments, AreSingleLayersIfTheirLeastSizeIsZero) {
  EXPECT_EQ(segments_of(kLayers, 100, 0),
            (std::vector<Segment>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
}

TEST(LayerSegments, ExcludeLayersThatDifferBetweenPasses) {
  std::vector<LayerTraits> layers = kLayers;
  layers[3].repeatable = false;
  EXPECT_EQ(segments_of(layers, 100, 1000), (std::vector<Segment>{{0, 3}, {3, 4, false}, {4, 5}}));
}

}  // namespace
}  // namespace pfc
