#include "pfcctl/data/embed/loaded_model.h"

#include <spdlog/fmt/fmt.h>

#include "common/command_line.h"
#include "common/error.h"
#include "common/machine/thread_waiting.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"
#include "pfcctl/data/options.h"

namespace pfc {

void add_compute_options(CLI::App& verb, ModelFlags& flags) {
  verb.add_option("--batch", flags.batch, "Number of images that the network embeds together")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  verb.add_option("--precision", flags.precision, "fp32, or bf16 if the processor has AVX512_BF16")
      ->transform(choice_of({"fp32", "bf16"}));
  add_threads(verb, flags.threads);
}

void add_model_options(CLI::App& verb, ModelFlags& flags) {
  verb.add_option("--model", flags.model, "Model file, such as backbone.safetensors")->required();
  add_compute_options(verb, flags);
}

LoadedModel::LoadedModel(const ModelFlags& flags) : file_(flags.model) {
  // Decoding and computing threads share the cores, so waiting threads must not spin.
  begin_again_as_workers_wait();
  const ModelFile file = read_model(flags.model);
  options_ = {.batch = flags.batch,
              .height = file.options.height,
              .width = file.options.width,
              .embedding_size = file.options.embedding_size,
              .threads = flags.threads};
  ops_ = make_ops(
      {.choice = DeviceChoice::kCpu, .cpu_threads = flags.threads, .precision = flags.precision});
  backbone_ = make_backbone(*ops_, file, flags.batch);
  images_ = OwnedTensor(*ops_, {flags.batch, options_.height, options_.width, 3}, DType::kUInt8);
}

EmbedOptions LoadedModel::options(bool flip) const {
  EmbedOptions options = options_;
  options.flip = flip;
  return options;
}

void LoadedModel::refuse(double length, const std::string& image) const {
  throw InputError(
      fmt::format("{}: the embedding of {} is {}; expected finite numbers: the weights are "
                  "damaged, or training "
                  "has diverged",
                  file_.string(), image, length == 0 ? "zero" : "not finite"));
}

}  // namespace pfc
