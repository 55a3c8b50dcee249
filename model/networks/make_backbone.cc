// Maps the networks' names to their architectures. No other file knows the names.
#include <utility>

#include "common/config/no_network.h"
#include "common/config/parameters/name_patterns.h"
#include "model/networks/architectures.h"
#include "model/networks/backbone.h"

namespace pfc {
namespace {

// Values of `scale` for networks other than mobilefacenets, whose scale is 1 or more.
constexpr int kIresnet = 0, kAdafaceIresnet = -1;

struct Named {
  const char* name;
  std::array<int, 4> blocks;
  std::int64_t mobilefacenet_scale;
};

constexpr std::array<Named, 10> kNetworks = {{{"r18", {2, 2, 2, 2}, kIresnet},
                                              {"r34", {3, 4, 6, 3}, kIresnet},
                                              {"r50", {3, 4, 14, 3}, kIresnet},
                                              {"r100", {3, 13, 30, 3}, kIresnet},
                                              {"r200", {6, 26, 60, 6}, kIresnet},
                                              {"mbf", {1, 4, 6, 2}, 2},
                                              {"mbf_large", {2, 8, 12, 4}, 4},
                                              {"ir_18", {2, 2, 2, 2}, kAdafaceIresnet},
                                              {"ir_50", {3, 4, 14, 3}, kAdafaceIresnet},
                                              {"ir_101", {3, 13, 30, 3}, kAdafaceIresnet}}};

const Named& network_named(const std::string& name) {
  std::string known;
  for (const Named& n : kNetworks) {
    if (n.name == name) return n;
    known += std::string(n.name) + ", ";
  }
  throw InputError("network: found \"" + name + "\", expected one of " + known +
                   std::string(kNoNetwork));
}

// Checks the image size: the network halves it four times, each time from an even size.
void check_image_size(const BackboneOptions& o, const Named& named) {
  const std::string size = std::to_string(o.height) + " x " + std::to_string(o.width);
  if (o.height <= 0 || o.width <= 0 || o.height % 16 != 0 || o.width % 16 != 0) {
    throw InputError("network " + o.network + ": images of " + size +
                     " pixels, expected multiples of 16; resize the data set");
  }
  if (named.mobilefacenet_scale > 0 && o.height != o.width) {
    throw InputError("network " + o.network + ": images of " + size +
                     " pixels, expected square ones; resize the data set or take an iresnet");
  }
}

void check_dropout(const BackboneOptions& o, const Named& named) {
  if (o.dropout == 0 || named.mobilefacenet_scale <= 0) return;
  throw InputError("dropout: found " + std::to_string(o.dropout) + ", but network " + o.network +
                   " has no dropout; set it to 0 or take an iresnet");
}

Variable* layers_of(NetworkBuilder& net, const Named& named) {
  if (named.mobilefacenet_scale == kIresnet) return iresnet(net, named.blocks);
  if (named.mobilefacenet_scale == kAdafaceIresnet) return adaface_iresnet(net, named.blocks);
  return mobilefacenet(net, named.blocks, named.mobilefacenet_scale);
}

/// Adds the layers. Returns the embeddings.
Variable* write_down(NetworkBuilder& net) {
  const BackboneOptions& options = net.options();
  const Named& named = network_named(options.network);
  check_image_size(options, named);
  check_dropout(options, named);
  Variable* const embeddings = layers_of(net, named);
  check_patterns("freeze", options.freeze, parameter_names(net.parameters().weights));
  return embeddings;
}

bool is_identity(const BackboneOptions& options) { return options.network == kNoNetwork; }

}  // namespace

BackboneOptions backbone_options(const JobConfig& job, std::int64_t height, std::int64_t width) {
  return {.network = job.network,
          .batch = job.batch_size,
          .embedding_size = job.embedding_size,
          .height = height,
          .width = width,
          .dropout = static_cast<float>(job.dropout),
          .seed = job.seed,
          .freeze = job.freeze};
}

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  return names;
}

Tensor batch_of(const BackboneOptions& o) {
  if (is_identity(o)) return {nullptr, DType::kFloat32, {o.batch, o.embedding_size}};
  return {nullptr, DType::kUInt8, {o.batch, o.height, o.width, 3}};
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Named& n : kNetworks) names.emplace_back(n.name);
  return names;
}

std::unique_ptr<Backbone> make_backbone(Ops& ops, const BackboneOptions& options) {
  if (is_identity(options)) return make_identity(ops, options);
  NetworkBuilder net(ops, options);
  return net.build(write_down(net));
}

BackboneParameters backbone_parameters(Ops& ops, const BackboneOptions& options) {
  if (is_identity(options)) return {};
  NetworkBuilder net(ops, options);
  write_down(net);
  return net.parameters();
}

std::vector<NetworkOp> network_graph(Ops& ops, const BackboneOptions& options) {
  check(!is_identity(options), "network_graph: the job has no network");
  NetworkBuilder net(ops, options);
  write_down(net);
  return net.graph();
}

BackboneMemory backbone_memory(Ops& ops, const BackboneOptions& options) {
  if (is_identity(options)) return identity_memory(options);
  NetworkBuilder net(ops, options);
  return net.measure(write_down(net));
}

}  // namespace pfc
