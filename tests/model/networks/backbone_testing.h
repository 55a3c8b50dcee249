// Shared by the tests of the backbone: an Ops, random data and a small network.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/make_ops.h"
#include "model/networks/backbone.h"
#include "model/networks/network_builder.h"
#include "tests/support/device_values.h"
#include "tests/support/relative_error.h"

namespace pfc::testing {

inline std::unique_ptr<Ops> cpu_ops() {
  return make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
}

inline std::vector<float> random_values(std::int64_t count, unsigned seed, float deviation = 1.f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.f, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(engine);
  return values;
}

/// Builds a network for 16 x 16 images with every kind of connection of the real networks: a stem
/// with PReLU, a block whose shape changes, one that adds its input before a batch norm
/// (iresnet), one that adds it before a convolution (mobilefacenet), grouped convolutions, and
/// the end of iresnet. Blocks are "a", "b", and "c" with the end.
inline std::unique_ptr<Backbone> make_small_network(Ops& ops, const BackboneOptions& options) {
  NetworkBuilder net(ops, options);
  const auto conv = [&](const char* name, Variable* x, std::int64_t out_c, int kernel, int stride,
                        std::int64_t groups = 1) {
    return net.conv(name, x,
                    {.out_c = out_c,
                     .kernel = kernel,
                     .stride = stride,
                     .pad = kernel / 2,
                     .groups = groups,
                     .initial = normal(0.3f)});
  };
  Variable* x = net.batch_norm("stem_bn", conv("stem", net.images(), 8, 3, 1), {.prelu = "stem_p"});
  std::optional<NetworkBuilder::Block> block(std::in_place, net, "a");
  Variable* y = conv("a.conv1", net.batch_norm("a.bn1", x), 16, 3, 1);
  y = conv("a.conv2", net.batch_norm("a.bn2", y, {.prelu = "a.prelu"}), 16, 3, 2);
  Variable* identity = net.batch_norm("a.down.1", conv("a.down.0", x, 16, 1, 2));
  x = net.batch_norm("a.bn3", y, {.residual = identity});
  block.reset();
  block.emplace(net, "b");
  y = conv("b.conv1", net.batch_norm("b.bn1", x), 16, 3, 1, 4);
  y = conv("b.conv2", net.batch_norm("b.bn2", y, {.prelu = "b.prelu"}), 16, 3, 1, 16);
  x = net.batch_norm("b.bn3", y, {.residual = x});
  block.reset();
  block.emplace(net, "c");
  y = net.batch_norm("c.bn1", conv("c.conv1", x, 32, 1, 1), {.prelu = "c.prelu"});
  x = net.batch_norm("c.bn2", conv("c.conv2", y, 16, 1, 1), {.residual = x});
  x = net.dropout(net.batch_norm("bn2", x));
  x = net.linear("fc", x,
                 {.out = options.embedding_size,
                  .bias = true,
                  .initial = uniform(0.05f),
                  .initial_bias = uniform(0.05f)});
  block.reset();
  return net.build(net.batch_norm("features", x, {.frozen_weight = true}));
}

/// Builds a small network with the connections of torchvision's resnet and of squeeze and
/// excitation: a max pooling, ReLUs after a batch norm and after a sum, a gate, and the average
/// over pixels as the embedding. Blocks are "a", "b" and "c". REQUIRES: 16 embeddings.
inline std::unique_ptr<Backbone> make_small_classifier(Ops& ops, const BackboneOptions& options) {
  NetworkBuilder net(ops, options);
  const auto conv = [&](const char* name, Variable* x, std::int64_t out_c, int kernel, int stride) {
    return net.conv(name, x,
                    {.out_c = out_c,
                     .kernel = kernel,
                     .stride = stride,
                     .pad = kernel / 2,
                     .initial = normal(0.3f)});
  };
  Variable* x = net.batch_norm("stem_bn", conv("stem", net.images(), 8, 3, 1), {.relu = true});
  x = net.max_pool("pool", x, {.kernel = 3, .stride = 2, .pad = 1});
  std::optional<NetworkBuilder::Block> block(std::in_place, net, "a");
  Variable* y = net.batch_norm("a.bn1", conv("a.conv1", x, 8, 3, 1), {.relu = true});
  x = net.batch_norm("a.bn2", conv("a.conv2", y, 8, 3, 1), {.residual = x, .relu = true});
  block.reset();
  block.emplace(net, "b");
  y = net.batch_norm("b.bn1", conv("b.conv1", x, 16, 3, 2), {.relu = true});
  y = conv("b.conv2", y, 16, 3, 1);
  Variable* identity = net.batch_norm("b.down.1", conv("b.down.0", x, 16, 1, 2));
  x = net.batch_norm("b.bn2", y, {.residual = identity, .relu = true});
  block.reset();
  block.emplace(net, "c");
  y = net.batch_norm("c.bn", conv("c.conv", x, 16, 3, 1));
  Variable* squeezed = conv("c.fc1", net.average_pool("c.pool", y, false), 8, 1, 1);
  squeezed = conv("c.fc2", net.relu("c.relu", squeezed), 16, 1, 1);
  x = net.gate("c.gate", y, squeezed, x);
  block.reset();
  return net.build(net.average_pool("average", x, true));
}

inline BackboneOptions small_options(std::int64_t batch = 4) {
  return {.network = "small",
          .batch = batch,
          .embedding_size = 8,
          .height = 16,
          .width = 16,
          .seed = 3};
}

inline Shape images_shape(const BackboneOptions& o) { return {o.batch, o.height, o.width, 3}; }

inline std::vector<float> random_images(const BackboneOptions& o, unsigned seed = 1) {
  return random_values(images_shape(o).elements(), seed, 0.5f);
}

}  // namespace pfc::testing
