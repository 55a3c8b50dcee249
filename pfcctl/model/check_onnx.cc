// pfcctl model check-onnx: checks an ONNX file against the limits of InsightFace's competition
// (recognition/arcface_torch/onnx_helper.py).
#include <onnx/onnx_pb.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/command_line.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/one_line.h"
#include "kernels/make_ops.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_interpreter.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

struct CompetitionTrack {
  std::string_view name;
  std::int64_t embedding_size;  ///< maximum
};

struct OnnxLimit {
  std::string what;      ///< "file"
  std::string found;     ///< "166 MB"
  std::string expected;  ///< "at most 1024 MB"
  bool kept = false;
};

constexpr std::array<CompetitionTrack, 4> kTracks = {
    {{"ms1m", 512}, {"cfat", 512}, {"glint", 1024}, {"unconstrained", 1024}}};

constexpr double kMostMegabytes = 1024;
constexpr std::int64_t kInputSide = 112, kImagesToRun = 32;
constexpr int kLeastNodes = 8;  // also the number of nodes checked for normalisation

std::string declared_shape(const onnx::ValueInfoProto& value) {
  std::string text;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    text += fmt::format(
        "{}{}", text.empty() ? "" : ", ",
        dim.has_dim_value() ? std::to_string(dim.dim_value()) : one_line(dim.dim_param(), 40));
  }
  return "[" + text + "]";
}

bool reads_images(const onnx::ValueInfoProto& input) {
  const auto& shape = input.type().tensor_type().shape();
  return shape.dim_size() == 4 && shape.dim(1).dim_value() == 3 &&
         shape.dim(2).dim_value() == kInputSide && shape.dim(3).dim_value() == kInputSide;
}

/// Returns the name of the first tensor with fewer than 4 bytes per element; empty: none.
std::string narrow_tensor(const onnx::GraphProto& graph) {
  const std::array wide = {onnx::TensorProto::FLOAT, onnx::TensorProto::DOUBLE,
                           onnx::TensorProto::INT32, onnx::TensorProto::INT64};
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (std::ranges::find(wide, tensor.data_type()) == wide.end()) return tensor.name();
  }
  return "";
}

/// Returns whether onnx_helper.py considers the graph as normalising, by the names of its nodes.
bool looks_normalised(const onnx::GraphProto& graph) {
  const auto one_begins_with = [&](std::initializer_list<const char*> words) {
    const auto first = graph.node().begin();
    return std::any_of(first, first + std::min(graph.node_size(), kLeastNodes), [&](const auto& n) {
      return std::ranges::any_of(words,
                                 [&](const char* word) { return n.name().starts_with(word); });
    });
  };
  return one_begins_with({"Sub", "_minus"}) && one_begins_with({"Mul", "_mul", "Div"});
}

OnnxLimit finite_embeddings(Ops& ops, const onnx::ModelProto& model) {
  std::vector<float> images(kImagesToRun * 3 * kInputSide * kInputSide);
  const bool pixels = looks_normalised(model.graph());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto pixel = static_cast<float>(i * 7919 % 256);
    images[i] = pixels ? pixel : pixel / 127.5f - 1.f;
  }
  const char* const what = "embeddings of 32 images";
  const char* const expected = "a finite sum";
  try {
    const std::vector<float> embeddings = run_onnx(ops, model, kImagesToRun, images);
    const double sum = std::accumulate(embeddings.begin(), embeddings.end(), 0.0);
    return {what, fmt::format("sum {:.6g}", sum), expected, std::isfinite(sum)};
  } catch (const InputError& error) {  // for example an operator that the interpreter lacks
    return {what, error.what(), expected, false};
  }
}

/// Checks all limits except the time per image. `file_bytes`: the size of the model's file. Runs
/// 32 images through run_onnx() if all other limits are met. REQUIRES: check_onnx() has accepted
/// the model.
std::vector<OnnxLimit> check_limits(Ops& ops, const onnx::ModelProto& model,
                                    std::uint64_t file_bytes, const CompetitionTrack& track) {
  const onnx::GraphProto& graph = model.graph();
  std::vector<OnnxLimit> limits;
  const auto add = [&](const char* what, std::string found, std::string expected, bool kept) {
    limits.push_back({what, std::move(found), std::move(expected), kept});
  };
  const double megabytes = static_cast<double>(file_bytes) / (1 << 20);
  add("file", fmt::format("{:.1f} MB", megabytes), "at most 1024 MB", megabytes <= kMostMegabytes);
  add("nodes", std::to_string(graph.node_size()), "at least 8", graph.node_size() >= kLeastNodes);
  const bool images = graph.input_size() > 0 && reads_images(graph.input(0));
  add("input", graph.input_size() > 0 ? declared_shape(graph.input(0)) : "none", "[N, 3, 112, 112]",
      images);
  const std::string narrow = narrow_tensor(graph);
  add("tensors", narrow.empty() ? "float32" : narrow + " is smaller", "float32", narrow.empty());
  add("outputs", std::to_string(graph.output_size()), "one", graph.output_size() == 1);
  if (graph.output_size() == 1) {
    const auto& shape = graph.output(0).type().tensor_type().shape();
    const std::int64_t size =
        shape.dim_size() < 2 ? 0 : shape.dim(shape.dim_size() - 1).dim_value();
    add("embedding", declared_shape(graph.output(0)),
        fmt::format("[N, D] with D at most {} in track {}", track.embedding_size, track.name),
        size > 0 && size <= track.embedding_size);
  }
  add("pixels", looks_normalised(graph) ? "0 to 255" : "x / 127.5 - 1", "either", true);
  if (std::ranges::all_of(limits, &OnnxLimit::kept))
    limits.push_back(finite_embeddings(ops, model));
  return limits;
}

struct CheckFlags {
  std::filesystem::path file;
  std::size_t track = 0;
  bool json = false;
};

void show(const std::vector<OnnxLimit>& limits, bool as_json) {
  nlohmann::json list = nlohmann::json::array();
  for (const OnnxLimit& each : limits) {
    list.push_back({{"what", each.what},
                    {"found", each.found},
                    {"expected", each.expected},
                    {"kept", each.kept}});
    if (!as_json) {
      std::printf("%-4s %-24s %-22s expected %s\n", each.kept ? "ok" : "FAIL", each.what.c_str(),
                  one_line(each.found).c_str(), each.expected.c_str());
    }
  }
  if (as_json) std::fputs(json_text(list).c_str(), stdout);
}

void check_file(const CheckFlags& flags) {
  const onnx::ModelProto model = read_onnx(flags.file);
  check_onnx(flags.file, model);
  const auto ops = make_ops({.choice = DeviceChoice::kCpu});
  const std::vector<OnnxLimit> limits =
      check_limits(*ops, model, std::filesystem::file_size(flags.file), kTracks[flags.track]);
  show(limits, flags.json);
  if (!std::ranges::all_of(limits, &OnnxLimit::kept)) throw ExitStatus{kExitBadInput};
}

}  // namespace

void add_check_onnx(CLI::App& model) {
  const auto flags = std::make_shared<CheckFlags>();  // owned by the verb's callback
  std::vector<std::string> tracks;
  for (const CompetitionTrack& each : kTracks) tracks.emplace_back(each.name);
  CLI::App* verb = model.add_subcommand(
      "check-onnx", "Checks an ONNX file against the limits of InsightFace's competition");
  verb->add_option("file", flags->file, "ONNX file")->required();
  verb->add_option("--track", flags->track,
                   "Track of the competition: ms1m, cfat, glint or unconstrained")
      ->transform(choice_of(tracks))
      ->default_str(tracks.front());
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Checks all limits except the time per image. The exit code is 2 if a limit is not met.\n"
      "Example:\n"
      "  pfcctl model check-onnx backbone.onnx --track glint");
  verb->callback([flags] { check_file(*flags); });
}

}  // namespace pfc
