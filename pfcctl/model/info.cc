#include "pfcctl/model/info.h"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/byte_size.h"
#include "common/counted.h"
#include "common/one_line.h"
#include "model/files/model_file.h"

namespace pfc {
namespace {

using nlohmann::json;

/// Tensors outside the network, by the first part of their names: the shape of a single tensor, or
/// the number of tensors.
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
  return {{"file", model.weights.state_dict.path().string()},
          {"format", model.weights.format},
          {"network", model.options.network},
          {"embedding_size", model.options.embedding_size},
          {"height", model.options.height},
          {"width", model.options.width},
          {"channel_order", model.weights.channel_order == ChannelOrder::kBgr ? "BGR" : "RGB"},
          {"parameters", parameters},
          {"bytes", bytes},
          {"about", model.weights.about},
          {"others", others_of(model.weights.others)}};
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
  line("as float32", byte_size_text(d["bytes"].get<std::uint64_t>()));
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
  CLI::App* verb = model.add_subcommand(
      "info",
      "Prints the network in a model file, its sizes and colour order, and what else it holds");
  verb->add_option(
          "file", flags->file,
          "backbone.safetensors, model.pt, backbone.pth, checkpoint_gpu_*.pt, .ckpt or .onnx")
      ->required();
  verb->add_flag("--json", flags->json, "For programs");
  verb->footer(
      "Runs no code from the file, and needs no Python.\n"
      "Example:\n"
      "  pfcctl model info model.pt");
  verb->callback([flags] {
    const json description = description_of(read_model(flags->file));
    if (flags->json) {
      std::fputs(json_text(description).c_str(), stdout);
    } else {
      show(description);
    }
  });
}

}  // namespace pfc
