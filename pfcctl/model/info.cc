// pfcctl model info: describes a model file.
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/machine/thread_waiting.h"
#include "common/median.h"
#include "common/one_line.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"
#include "pfcctl/verbs.h"
#include "worker/capacity/recording_ops.h"

namespace pfc {
namespace {

using nlohmann::json;

/// Returns the tensors outside the network, by the first part of their names: the shape of a
/// single tensor, or the number of tensors.
json others_of(const NamedTensors& others) {
  json list = json::object();
  for (const auto& [name, tensor] : others.tensors()) {
    const std::string kind = name.substr(0, name.find('/'));
    json& entry = list.emplace(kind, json::object()).first.value();
    entry["tensors"] = entry.value("tensors", 0) + 1;
    entry["shape"] = tensor.shape;
  }
  for (json& entry : list) {
    if (entry["tensors"] > 1) entry.erase("shape");
  }
  return list;
}

/// Reference file sizes of InsightFace's competition, in MB of 2^20 bytes.
const std::map<std::string_view, int> kReferenceMegabytes = {
    {"r50", 166}, {"r100", 248}, {"r200", 476}};

/// Returns the multiplications plus additions of convolutions and linear layers for one image.
double flops_of(const BackboneOptions& network) {
  RecordingOps ops(DType::kFloat32);
  const std::unique_ptr<Backbone> backbone = make_backbone(ops, network);
  ops.take();
  backbone->forward(backbone->input(), /*training=*/false, 0);
  double flops = 0;
  for (const OpWork& work : ops.take()) flops += work.flops;
  return flops;
}

constexpr int kTimedRuns = 9;

/// Returns the median time of a forward pass of one image on this machine's CPU, in milliseconds.
double latency_of(const ModelFile& model) {
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  const std::unique_ptr<Backbone> backbone = make_backbone(*ops, model, 1);
  const std::int64_t height = model.options.height, width = model.options.width;
  std::vector<std::uint8_t> image(static_cast<std::size_t>(height * width * 3));
  backbone->read({image.data(), DType::kUInt8, {1, height, width, 3}});
  std::vector<double> seconds;
  for (int run = 0; run <= kTimedRuns; ++run) {
    const TimePoint start = Clock::now();
    backbone->forward(backbone->input(), /*training=*/false, 0);
    ops->synchronize();
    if (run > 0) seconds.push_back(seconds_since(start));  // the first run is a warm-up
  }
  return 1000 * median_of(std::move(seconds));
}

json description_of(const ModelFile& model) {
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : model.weights.state_dict.tensors()) {
    const bool counted = !name.ends_with(".running_mean") && !name.ends_with(".running_var");
    if (tensor.dtype == "F32" && counted) {
      parameters += static_cast<std::int64_t>(tensor.bytes.size() / sizeof(float));
    }
    bytes += tensor.bytes.size();
  }
  json description = {
      {"file", model.weights.state_dict.path().string()},
      {"format", model.weights.format},
      {"network", model.options.network},
      {"embedding_size", model.options.embedding_size},
      {"height", model.options.height},
      {"width", model.options.width},
      {"channel_order", model.weights.channel_order == ChannelOrder::kBgr ? "BGR" : "RGB"},
      {"parameters", parameters},
      {"bytes", bytes},
      {"flops", flops_of(model.options)},
      {"latency_ms", latency_of(model)},
      {"about", model.weights.about},
      {"others", others_of(model.weights.others)}};
  const auto reference = kReferenceMegabytes.find(model.options.network);
  if (reference != kReferenceMegabytes.end()) description["reference_mb"] = reference->second;
  return description;
}

void show(const json& d) {
  const auto line = [](const std::string& what, const std::string& text) {
    std::printf("%-15s %s\n", one_line(what, 80).c_str(), one_line(text).c_str());
  };
  line("file", d["file"].get<std::string>());
  line("format", d["format"].get<std::string>());
  line("network", d["network"].get<std::string>());
  line("images", fmt::format("{} x {}, {}", d["height"].get<int>(), d["width"].get<int>(),
                             d["channel_order"].get<std::string>()));
  line("embeddings", counted(d["embedding_size"].get<int>(), "number"));
  line("parameters", fmt::format("{:.2f} million", d["parameters"].get<double>() / 1e6));
  line("as float32",
       byte_size_text(d["bytes"].get<std::uint64_t>()) +
           (d.contains("reference_mb")
                ? fmt::format("; in InsightFace's table: {} MB", d["reference_mb"].get<int>())
                : ""));
  line("operations",
       fmt::format("{:.2f} GFLOP per image, counting a multiplication and an addition as two",
                   d["flops"].get<double>() / 1e9));
  line("latency",
       fmt::format("{:.1f} ms per image on this CPU, batch 1, float32, median of {} runs",
                   d["latency_ms"].get<double>(), kTimedRuns));
  for (const auto& [key, value] : d["about"].items())
    line(key, value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& [kind, entry] : d["others"].items()) {
    line(kind, entry.contains("shape") ? entry["shape"].dump()
                                       : counted(entry["tensors"].get<int>(), "tensor"));
  }
}

}  // namespace

void add_model_info(CLI::App& model) {
  struct Flags {
    std::filesystem::path file;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  CLI::App* verb = model.add_subcommand("info",
                                        "Describes the network in a model file (sizes, speed, "
                                        "colour order) and lists the file's other content");
  verb->add_option(
          "file", flags->file,
          "backbone.safetensors, model.pt, backbone.pth, checkpoint_gpu_*.pt, .ckpt or .onnx")
      ->required();
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Runs no code from the file, and needs no Python. Measures the latency by embedding a\n"
      "black image ten times. Example:\n"
      "  pfcctl model info model.pt");
  verb->callback([flags] {
    begin_again_as_workers_wait();  // spinning threads would slow down a busy machine
    const json description = description_of(read_model(flags->file));
    if (flags->json) {
      std::fputs(json_text(description).c_str(), stdout);
    } else {
      show(description);
    }
  });
}

}  // namespace pfc
