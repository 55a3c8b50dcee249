// pfcctl embed: writes the embeddings of a data set.
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "pfcctl/data/embed/embedding_writer.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/verbs.h"

namespace pfc {

namespace {

using std::filesystem::path;

struct EmbedFlags {
  ModelFlags model;
  EmbeddingFiles files;  ///< the name of the model is in `model`
  bool json = false;
};

void check_out_file(const EmbedFlags& flags) {
  const path& out = flags.files.out;
  const bool npy = out.extension() == ".npy";
  if ((!npy && out.extension() != ".safetensors") || out.filename() == "labels.npy") {
    throw InputError(fmt::format(
        "--out {}: expected a file name that ends with .safetensors or .npy, and is not labels.npy",
        out.string()));
  }
  std::error_code error;
  if (std::filesystem::is_directory(flags.files.data, error) && way_within(flags.files.data, out)) {
    throw InputError(out.string() + ": --out is inside the data set; choose another folder");
  }
  const path other = path(out).replace_extension(npy ? ".safetensors" : ".npy");
  if (something_at(other)) {
    throw InputError(fmt::format(
        "{}: already exists, and {} names its images; choose another name than {} for --out",
        other.string(), path_of_names(out).string(), out.string()));
  }
  const std::array inputs{flags.model.model, flags.files.data};
  for (const path& written : {out, path_of_names(out), npy ? path_of_labels(out) : out}) {
    expect_not_an_input(written, inputs);
  }
}

void run_embed(const EmbedFlags& flags) {
  check_out_file(flags);
  const TimePoint start = Clock::now();
  const LoadedModel model(flags.model);
  EmbeddingFiles files = flags.files;
  files.model = flags.model.model;
  const auto dataset = open_images(files.data, model.options(false).height, end_at_interrupt);
  expect_one_label(*dataset, "pfcctl embed");
  const std::vector<std::string> damaged = write_embeddings(*dataset, model, files);
  tell_damaged(damaged);
  const std::int64_t dimension = model.options(false).embedding_size;
  const nlohmann::json told{{"file", files.out.string()},
                            {"images", dataset->info().images},
                            {"embedding_size", dimension},
                            {"damaged", damaged.size()},
                            {"seconds", seconds_since(start)}};
  if (flags.json) {
    std::fputs(json_text(told).c_str(), stdout);
  } else {
    std::printf("%s: %lld embeddings of %lld numbers, %s with a row of zeros (%.1f s)\n",
                one_line(files.out.string()).c_str(),
                static_cast<long long>(dataset->info().images), static_cast<long long>(dimension),
                counted(std::ssize(damaged), "damaged image").c_str(), seconds_since(start));
  }
}

}  // namespace

void add_embed_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<EmbedFlags>();  // owned by the verb's callback
  CLI::App* verb =
      pfcctl.add_subcommand("embed", "Computes and writes the embeddings of a data set");
  add_model_options(*verb, flags->model);
  verb->add_option("--in", flags->files.data,
                   "A data set in any layout that pfc trains on, for example one folder for each "
                   "person")
      ->required();
  verb->add_option("--out", flags->files.out,
                   "F.safetensors for embeddings and labels, or F.npy, which gets labels.npy in "
                   "the same folder")
      ->required();
  verb->add_flag("--flip", flags->files.flip,
                 "Adds the embedding of the mirror image to each embedding");
  add_max_damaged(*verb, flags->files.max_damaged);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Line k of F.names.txt names the image of row k. A job with \"network\": \"none\" trains on\n"
      "the file (docs/evaluate.md). Embeddings are not normalised. Example:\n"
      "  pfcctl embed --model out/backbone.safetensors --in /data/faces --out faces.safetensors");
  verb->callback([flags] { run_embed(*flags); });
}

}  // namespace pfc
