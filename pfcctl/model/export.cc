// pfcctl export: writes a trained network to files that other programs read.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/byte_size.h"
#include "common/command_line.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/damaged_image.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/files/export_model.h"
#include "model/files/torch_writer.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/verbs.h"
#include "worker/checkpoint/arcface/arcface_export.h"

namespace pfc {
namespace {

constexpr std::int64_t kCalibrationImages = 200;

struct ExportFlags {
  std::filesystem::path model, output, calibrate;
  bool int8 = false;
  OnnxOptions onnx;
  bool json = false;
};

/// Prints the result. `details`: extra JSON fields of the format, for example {"opset": 13}.
void show(const ExportFlags& flags, const ModelFile& model, nlohmann::json details) {
  const std::uintmax_t bytes = std::filesystem::file_size(flags.output);
  if (flags.json) {
    details.update({{"file", flags.output.string()},
                    {"bytes", bytes},
                    {"network", model.options.network},
                    {"embedding_size", model.options.embedding_size}});
    std::fputs(json_text(details).c_str(), stdout);
    return;
  }
  std::string line = fmt::format("{}: {}, {}", one_line(flags.output.string()),
                                 model.options.network, byte_size_text(bytes));
  if (details.contains("difference")) {
    line +=
        fmt::format("; on random images its embeddings differ from pfc's by {:.1e} of their length",
                    details["difference"].get<double>());
  }
  if (details.contains("median_cosine")) {
    line += fmt::format(
        "; median cosine of its embeddings of {} images to those of float32: {:.5f}",
        details["calibration_images"].get<int>(), details["median_cosine"].get<double>());
  }
  std::printf("%s\n", line.c_str());
}

/// Returns images [count, H, W, 3] from all parts of the data set, without damaged ones.
std::vector<std::uint8_t> calibration_images(const std::filesystem::path& data,
                                             const BackboneOptions& network) {
  const auto dataset = open_images(data, network.height, end_at_interrupt);
  const ReadImage read = read_images_of(*dataset, {network.height, network.width});
  const std::int64_t all = dataset->info().images, count = std::min(all, kCalibrationImages);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(network.height * network.width * 3)),
      images;
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      read(i * all / count, image);
      images.insert(images.end(), image.begin(), image.end());
    } catch (const DamagedImage&) {
      continue;
    }
  }
  if (!images.empty()) return images;
  throw InputError(fmt::format("--calibrate {}: all of the {} images that were read are damaged",
                               data.string(), count));
}

nlohmann::json export_int8(const ExportFlags& flags, const ModelFile& model) {
  if (flags.onnx.opset < kInt8Opset) {
    throw InputError(
        fmt::format("--int8 with --opset {}: expected --opset {}, the first one with "
                    "a scale for each channel",
                    flags.onnx.opset, kInt8Opset));
  }
  const std::vector<std::uint8_t> images = calibration_images(flags.calibrate, model.options);
  Progress progress("calibrating and checking", "images");
  const double cosine =
      export_int8_onnx(model, flags.output, flags.onnx, images, progress.as_function());
  const std::int64_t bytes = model.options.height * model.options.width * 3;
  return {{"opset", flags.onnx.opset},
          {"calibration_images", std::ssize(images) / bytes},
          {"median_cosine", cosine}};
}

/// Reads the model. Throws if the output is an input file, or not a regular file.
ModelFile read_input(const ExportFlags& flags) {
  expect_regular_or_nothing(flags.output);
  expect_not_an_input(flags.output, std::array{flags.model, flags.calibrate});
  return read_model(flags.model);
}

CLI::App* add_format(CLI::App& verb, const char* name, const std::string& about,
                     const std::shared_ptr<ExportFlags>& flags) {
  CLI::App* format = verb.add_subcommand(name, about);
  format
      ->add_option("--model", flags->model,
                   "Model file: backbone.safetensors of a job, model.pt, or an ONNX file")
      ->required();
  format->add_option("--output", flags->output, "Output file")->required();
  format->add_flag("--json", flags->json, "Prints JSON, for programs");
  return format;
}

void add_onnx(CLI::App& verb) {
  const auto flags = std::make_shared<ExportFlags>();  // owned by the verb's callback
  CLI::App* onnx =
      add_format(verb, "onnx", "Writes ONNX, for ONNX Runtime, TensorRT and others", flags);
  onnx->add_option("--opset", flags->onnx.opset,
                   "Version of the ONNX operators; older programs need a lower one")
      ->check(whole_number(kLowestOpset, kHighestOpset))
      ->capture_default_str();
  CLI::Option* float16 = onnx->add_flag("--float16", flags->onnx.float16,
                                        "Stores float16, which halves the size, except in the last "
                                        "layers. Input and output stay float32");
  CLI::Option* int8 = onnx->add_flag(
      "--int8", flags->int8, "Uses int8 convolutions and linear layers, for a quarter of the size");
  CLI::Option* calibrate = onnx->add_option("--calibrate", flags->calibrate,
                                            "Data set whose images determine the ranges of int8");
  int8->excludes(float16)->needs(calibrate);
  calibrate->needs(int8);
  onnx->add_flag("--normalize", flags->onnx.normalize,
                 "Makes the graph read pixels from 0 to 255. Without it, the program that runs the "
                 "graph must compute x / 127.5 - 1 first");
  onnx->add_flag(
      "--flip", flags->onnx.flip,
      "Makes the graph add the embedding of the mirror image, which takes twice as long");
  onnx->footer(
      "Input \"data\": RGB images [N, 3, 112, 112], of any number N. Output \"embedding\": [N, "
      "D],\n"
      "not normalised. The graph is checked on random images, and not written if it gives other\n"
      "embeddings than the network (docs/export.md). Example:\n"
      "  pfcctl export onnx --model work_dirs/r50/backbone.safetensors --output r50.onnx\n"
      "  pfcctl export onnx --model r50.onnx --output int8.onnx --int8 --calibrate /data/faces");
  onnx->callback([flags] {
    const ModelFile model = read_input(*flags);
    if (flags->int8) return show(*flags, model, export_int8(*flags, model));
    const double difference = export_onnx(model, flags->output, flags->onnx);
    show(*flags, model, {{"opset", flags->onnx.opset}, {"difference", difference}});
  });
}

template <typename Write>
void add_weights(CLI::App& verb, const char* name, const std::string& about,
                 const std::string& example, Write write) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* format = add_format(verb, name, about, flags);
  format->footer("Tensors have arcface_torch's names (docs/export.md). Example:\n  " + example);
  format->callback([flags, write] {
    const ModelFile model = read_input(*flags);
    write(model, flags->output);
    show(*flags, model, nlohmann::json::object());
  });
}

void add_arcface(CLI::App& verb) {
  struct Flags {
    std::filesystem::path checkpoint, output;
    int gpus = 1;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* arcface = verb.add_subcommand(
      "arcface",
      "Converts a job's checkpoint to checkpoint_gpu_*.pt, from which arcface_torch resumes");
  arcface->add_option("--checkpoint", flags->checkpoint, "Checkpoint folder step-* of a job")
      ->required();
  arcface->add_option("--gpus", flags->gpus, "Number of GPUs on which arcface_torch will run")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  arcface->add_option("--output", flags->output, "Output folder")->required();
  arcface->add_flag("--json", flags->json, "Prints JSON, for programs");
  arcface->footer(
      "Writes one file for each GPU: backbone, class centres, momentum, learning rate, epoch and\n"
      "step. Set resume = True and this output in arcface_torch's configuration (docs/export.md).\n"
      "Example:\n"
      "  pfcctl export arcface --checkpoint work_dirs/r50/step-000040000 --gpus 8 --output theirs");
  arcface->callback([flags] {
    nlohmann::json files = nlohmann::json::array();
    export_arcface_checkpoint(
        flags->checkpoint, flags->gpus, flags->output, [&](const std::filesystem::path& file) {
          const std::uintmax_t bytes = std::filesystem::file_size(file);
          files.push_back({{"file", file.string()}, {"bytes", bytes}});
          if (flags->json) return;
          std::printf("%s: %s\n", one_line(file.string()).c_str(), byte_size_text(bytes).c_str());
          std::fflush(stdout);
        });
    if (flags->json) std::fputs(json_text(files).c_str(), stdout);
  });
}

}  // namespace

void add_export_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("export", "Exports a model for other programs");
  verb->require_subcommand(1);
  add_onnx(*verb);
  add_weights(*verb, "pt",
              "Writes a state dict for PyTorch, which torch.load(weights_only=True) reads",
              "pfcctl export pt --model work_dirs/r50/backbone.safetensors --output model.pt",
              [](const ModelFile& model, const std::filesystem::path& path) {
                write_torch(path, model.weights.state_dict);
              });
  add_weights(*verb, "safetensors", "Writes safetensors, from any supported model file",
              "pfcctl export safetensors --model model.pt --output backbone.safetensors",
              export_safetensors);
  add_arcface(*verb);
}

}  // namespace pfc
