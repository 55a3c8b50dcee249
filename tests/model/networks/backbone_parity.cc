// One step of a backbone from a file, for comparison with another implementation.
//
//   backbone_parity NETWORK IN.safetensors OUT.safetensors [bf16]
//
// NETWORK is a name, or "vit:WIDTH,DEPTH,DROP_PATH,MASK", "ir_se:A,B,C,D" or "bottlenecks:A,B,C,D":
// TFace's or torchvision's network with these numbers of blocks.
// IN holds the network's state dict, `images` U8 [B, H, W, 3] and `d_embeddings` F32 [B, D]. OUT
// gets `eval.embeddings` (running statistics), then of one training step `train.embeddings`,
// `gradient.NAME` of every trained parameter, and the state dict after it as `after.NAME`.
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"
#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

constexpr const char* kImages = "images";
constexpr const char* kDEmbeddings = "d_embeddings";

/// Returns a copy of a file's tensor on the device.
OwnedTensor load(Ops& ops, const SafetensorsFile::Tensor& from, DType dtype) {
  Shape shape = from.shape.size() == 2
                    ? Shape{from.shape.at(0), from.shape.at(1)}
                    : Shape{from.shape.at(0), from.shape.at(1), from.shape.at(2), from.shape.at(3)};
  OwnedTensor loaded(ops, shape, dtype);
  ops.copy_to_device(loaded, from.bytes.data());
  return loaded;
}

HostTensor to_host(Ops& ops, const std::string& name, const Tensor& tensor) {
  HostTensor out{.name = name, .dtype = "F32", .shape = {}, .bytes = {}};
  for (int i = 0; i < tensor.shape.rank(); ++i) out.shape.push_back(tensor.shape[i]);
  out.bytes.resize(tensor.bytes());
  ops.copy_to_host(out.bytes.data(), tensor);
  return out;
}

/// Returns the network that options.network names. Besides the names of make_backbone(), it can be
/// a kind with its numbers of blocks or its sizes, such as "ir_se:1,1,1,1".
std::unique_ptr<Backbone> make_network(Ops& ops, const BackboneOptions& options) {
  std::array<int, 4> blocks{};
  const auto has_blocks = [&](const char* format) {
    return std::sscanf(options.network.c_str(), format, &blocks[0], &blocks[1], &blocks[2],
                       &blocks[3]) == 4;
  };
  NetworkBuilder any_depth(ops, options);
  if (has_blocks("ir_se:%d,%d,%d,%d")) return any_depth.build(tface_iresnet(any_depth, blocks));
  if (has_blocks("bottlenecks:%d,%d,%d,%d"))
    return any_depth.build(resnet(any_depth, blocks, true));
  VitOptions sizes;
  if (std::sscanf(options.network.c_str(), "vit:%ld,%d,%f,%lf", &sizes.width, &sizes.depth,
                  &sizes.drop_path, &sizes.mask) != 4) {
    return make_backbone(ops, options);
  }
  return any_depth.build(vit(any_depth, sizes));
}

std::vector<HostTensor> run(Ops& ops, const std::string& network, const SafetensorsFile& in) {
  const OwnedTensor images = load(ops, in.at(kImages), DType::kUInt8);
  const OwnedTensor d_embeddings = load(ops, in.at(kDEmbeddings), DType::kFloat32);
  const Shape& size = images->shape;
  const auto backbone = make_network(ops, {.network = network,
                                           .batch = size[0],
                                           .embedding_size = d_embeddings->shape[1],
                                           .height = size[1],
                                           .width = size[2]});
  import_state_dict(ops, *backbone, in, {kImages, kDEmbeddings});

  const OwnedTensor x(ops, size, ops.activation_type());
  ops.normalise_images(images, x);

  std::vector<HostTensor> out;
  out.push_back(to_host(ops, "eval.embeddings", backbone->forward(x, false, 0)));
  out.push_back(to_host(ops, "train.embeddings", backbone->forward(x, true, 0)));
  backbone->backward(d_embeddings, {}, [](std::int64_t) {});
  for (HostTensor& t : export_flat(ops, backbone->weights, backbone->gradients(), "gradient.")) {
    out.push_back(std::move(t));
  }
  for (HostTensor& t : export_state_dict(ops, *backbone)) {
    t.name = "after." + t.name;
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  const bool bf16 = argc == 5 && std::string_view(argv[4]) == "bf16";
  if (argc != 4 && !bf16) {
    std::fprintf(stderr, "usage: backbone_parity NETWORK IN.safetensors OUT.safetensors [bf16]\n");
    return 2;
  }
  try {
    const auto ops =
        pfc::make_ops({.choice = pfc::DeviceChoice::kCpu,
                       .precision = bf16 ? pfc::Precision::kBf16 : pfc::Precision::kFp32});
    const auto results = pfc::run(*ops, argv[1], pfc::SafetensorsFile(argv[2]));
    std::vector<pfc::SafetensorsEntry> entries;
    for (const pfc::HostTensor& t : results) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
    pfc::write_safetensors(argv[3], entries);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "backbone_parity: %s\n", e.what());
    return 1;
  }
  return 0;
}
