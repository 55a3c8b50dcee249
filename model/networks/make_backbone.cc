// Maps the networks' names to their architectures. No other file knows the names.
#include <utility>

#include "common/config/no_network.h"
#include "common/config/parameters/name_patterns.h"
#include "model/networks/architectures/architectures.h"
#include "model/networks/backbone.h"

namespace pfc {
namespace {

/// Networks that accept the same images and options.
enum class Family { kIresnet, kMobilefacenet, kVit, kResnet };

struct Named {
  const char* name;
  Family family;
  Variable* (*layers)(NetworkBuilder& net);  ///< adds the layers; returns the embeddings
  std::int64_t embedding_size = 0;           ///< 0: the embedding size in the job
};

template <int... kBlocks>
Variable* iresnet_of(NetworkBuilder& net) {
  return iresnet(net, {kBlocks...});
}
template <int... kBlocks>
Variable* adaface_of(NetworkBuilder& net) {
  return adaface_iresnet(net, {kBlocks...});
}
template <int... kBlocks>
Variable* tface_of(NetworkBuilder& net) {
  return tface_iresnet(net, {kBlocks...});
}
template <int kScale, int... kBlocks>
Variable* mobilefacenet_of(NetworkBuilder& net) {
  return mobilefacenet(net, {kBlocks...}, kScale);
}
template <bool kBottlenecks, int... kBlocks>
Variable* resnet_of(NetworkBuilder& net) {
  return resnet(net, {kBlocks...}, kBottlenecks);
}
template <VitOptions kOptions>
Variable* vit_of(NetworkBuilder& net) {
  return vit(net, kOptions);
}

using enum Family;
constexpr Named kNetworks[] = {
    {"r18", kIresnet, iresnet_of<2, 2, 2, 2>},
    {"r34", kIresnet, iresnet_of<3, 4, 6, 3>},
    {"r50", kIresnet, iresnet_of<3, 4, 14, 3>},
    {"r100", kIresnet, iresnet_of<3, 13, 30, 3>},
    {"r200", kIresnet, iresnet_of<6, 26, 60, 6>},
    {"mbf", kMobilefacenet, mobilefacenet_of<2, 1, 4, 6, 2>},
    {"mbf_large", kMobilefacenet, mobilefacenet_of<4, 2, 8, 12, 4>},
    {"ir_18", kIresnet, adaface_of<2, 2, 2, 2>},
    {"ir_50", kIresnet, adaface_of<3, 4, 14, 3>},
    {"ir_101", kIresnet, adaface_of<3, 13, 30, 3>},
    {"ir_se_50", kIresnet, tface_of<3, 4, 14, 3>},
    {"ir_se_101", kIresnet, tface_of<3, 13, 30, 3>},
    {"resnet18", kResnet, resnet_of<false, 2, 2, 2, 2>, 512},
    {"resnet34", kResnet, resnet_of<false, 3, 4, 6, 3>, 512},
    {"resnet50", kResnet, resnet_of<true, 3, 4, 6, 3>, 2048},
    {"resnet101", kResnet, resnet_of<true, 3, 4, 23, 3>, 2048},
    {"vit_t", kVit, vit_of<VitOptions{256, 12, .1f, .1}>},
    {"vit_t_dp005_mask0", kVit, vit_of<VitOptions{256, 12, .05f, 0}>},
    {"vit_s", kVit, vit_of<VitOptions{512, 12, .1f, .1}>},
    {"vit_s_dp005_mask_0", kVit, vit_of<VitOptions{512, 12, .05f, 0}>},
    {"vit_b", kVit, vit_of<VitOptions{512, 24, .1f, .1}>},
    {"vit_b_dp005_mask_005", kVit, vit_of<VitOptions{512, 24, .05f, .05}>},
    {"vit_l_dp005_mask_005", kVit, vit_of<VitOptions{768, 24, .05f, .05}>},
    {"vit_h", kVit, vit_of<VitOptions{1024, 48, .1f, 0}>},
};

const Named& network_named(const std::string& name) {
  std::string known;
  for (const Named& n : kNetworks) {
    if (n.name == name) return n;
    known += std::string(n.name) + ", ";
  }
  throw InputError("network: found \"" + name + "\", expected one of " + known +
                   std::string(kNoNetwork));
}

/// Returns an empty text if the network accepts this image size, otherwise the expected size.
std::string wrong_image_size(const BackboneOptions& o, const Named& named) {
  if (named.family == kVit) {
    if (o.height >= kVitPatch && o.width >= kVitPatch) return "";
    return "at least one patch of 9 x 9; resize the data set";
  }
  // These networks halve the size four or five times, and each time it must be even.
  const int step = named.family == kResnet ? 32 : 16;
  if (o.height <= 0 || o.width <= 0 || o.height % step != 0 || o.width % step != 0) {
    return "multiples of " + std::to_string(step) + "; resize the data set";
  }
  if (named.family == kMobilefacenet && o.height != o.width) {
    return "a square size; resize the data set or use an iresnet";
  }
  return "";
}

void check_image_size(const BackboneOptions& o, const Named& named) {
  const std::string expected = wrong_image_size(o, named);
  if (expected.empty()) return;
  throw InputError("network " + o.network + ": images of " + std::to_string(o.height) + " x " +
                   std::to_string(o.width) + " pixels, expected " + expected);
}

bool has_embedding_size(const BackboneOptions& o, const Named& named) {
  return named.embedding_size == 0 || named.embedding_size == o.embedding_size;
}

void check_embedding_size(const BackboneOptions& o, const Named& named) {
  if (has_embedding_size(o, named)) return;
  throw InputError("embedding_size: found " + std::to_string(o.embedding_size) +
                   ", but the embeddings of network " + o.network + " have " +
                   std::to_string(named.embedding_size) + " numbers; set it to " +
                   std::to_string(named.embedding_size));
}

void check_zero_init(const BackboneOptions& o, const Named& named) {
  if (!o.zero_init_residual || named.family == kResnet) return;
  throw InputError("zero_init_residual: found true, but network " + o.network +
                   " has no such initial weights; leave it out or take resnet50");
}

void check_dropout(const BackboneOptions& o, const Named& named) {
  if (o.dropout == 0 || named.family == kIresnet) return;
  throw InputError("dropout: found " + std::to_string(o.dropout) + ", but network " + o.network +
                   " has no dropout; set it to 0 or use an iresnet");
}

/// Adds the layers. Returns the embeddings.
Variable* write_down(NetworkBuilder& net) {
  const BackboneOptions& options = net.options();
  if (options.network == kNoNetwork) {
    Variable* const embeddings = linear_features(net);
    check_patterns("freeze", options.freeze, parameter_names(net.parameters().weights));
    return embeddings;
  }
  const Named& named = network_named(options.network);
  check_image_size(options, named);
  check_embedding_size(options, named);
  check_dropout(options, named);
  check_zero_init(options, named);
  Variable* const embeddings = named.layers(net);
  check_patterns("freeze", options.freeze, parameter_names(net.parameters().weights));
  check_patterns("recompute", options.recompute, net.block_names(), "block");
  return embeddings;
}

bool is_identity(const BackboneOptions& options) {
  return options.network == kNoNetwork && options.feature_size == 0;
}

}  // namespace

BackboneOptions backbone_options(const JobConfig& job, std::int64_t height, std::int64_t width) {
  return {.network = job.network,
          .batch = job.batch_size,
          .embedding_size = job.embedding_size,
          .feature_size = job.feature_size,
          .height = height,
          .width = width,
          .pixels = job.pixels,
          .dropout = static_cast<float>(job.dropout),
          .seed = job.seed,
          .freeze = job.freeze,
          .recompute = job.recompute,
          .zero_init_residual = job.zero_init_residual};
}

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  return names;
}

Tensor batch_of(const BackboneOptions& o) {
  if (o.network == kNoNetwork) {
    return {
        nullptr, DType::kFloat32, {o.batch, is_identity(o) ? o.embedding_size : o.feature_size}};
  }
  return {nullptr, DType::kUInt8, {o.batch, o.height, o.width, 3}};
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Named& n : kNetworks) names.emplace_back(n.name);
  return names;
}

bool has_sizes(const BackboneOptions& options) {
  const Named& named = network_named(options.network);
  return wrong_image_size(options, named).empty() && has_embedding_size(options, named);
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
