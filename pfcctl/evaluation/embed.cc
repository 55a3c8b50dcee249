// pfcctl embed: writes the embeddings of a data set.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors.h"
#include "common/one_line.h"
#include "data/records/buffered_file.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/evaluation/damages.h"
#include "pfcctl/evaluation/loaded_model.h"
#include "pfcctl/verbs.h"

namespace pfc {

namespace {

using std::filesystem::path;

struct EmbedFlags {
  ModelFlags model;
  path in, out;
  bool flip = false, json = false;
  double max_damaged = 0.001;
};

/// Embeds a data set and writes its files. Nothing grows with the number of images but what the
/// open data set itself takes.
class EmbeddingWriter {
 public:
  EmbeddingWriter(const Dataset& dataset, const LoadedModel& model, const EmbedFlags& flags)
      : dataset_(dataset),
        model_(model),
        flags_(flags),
        options_(model.options(flags.flip)),
        damages_(dataset.info().images, flags.max_damaged) {}

  const std::vector<std::string>& write() {
    if (flags_.out.extension() == ".npy") {
      write_npy();
    } else {
      write_tensors();
    }
    return damages_.all();
  }

 private:
  [[nodiscard]] std::int64_t images() const { return dataset_.info().images; }

  void write_tensors() {
    const std::vector<SafetensorsEntry> entries{
        {.name = "labels",
         .dtype = "I64",
         .shape = {images()},
         .pieces = [&](const ByteSink& sink) { give_labels(sink); }},
        {.name = "embeddings",
         .dtype = "F32",
         .shape = {images(), options_.embedding_size},
         .pieces = [&](const ByteSink& sink) { give_embeddings(sink); }}};
    write_safetensors(flags_.out, entries,
                      {{"model", flags_.model.model.string()}, {"data", flags_.in.string()}});
  }

  void write_npy() {
    write_array(flags_.out.parent_path() / "labels.npy", "<i8", fmt::format("({},)", images()),
                [&](const ByteSink& sink) { give_labels(sink); });
    write_array(flags_.out, "<f4", fmt::format("({}, {})", images(), options_.embedding_size),
                [&](const ByteSink& sink) { give_embeddings(sink); });
  }

  static void write_array(const path& file, const char* type, const std::string& shape,
                          const std::function<void(const ByteSink&)>& give) {
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
    header.append(63 - (10 + header.size()) % 64, ' ') += '\n';  // the numbers begin at 64 n
    BufferedFile out(file);
    out.write(std::string_view("\x93NUMPY\x01\x00", 8));
    out.write(std::string{static_cast<char>(header.size() & 0xff),
                          static_cast<char>(header.size() >> 8)});
    out.write(header);
    give([&](std::span<const std::byte> bytes) { out.write(bytes); });
    out.commit();
  }

  /// The label of an image that cannot be read is 0; its embedding is zero, which no reader takes.
  void give_labels(const ByteSink& sink) const {
    std::vector<std::byte> storage;
    Progress progress("reading labels", "images");
    for (std::int64_t i = 0; i < images(); ++i) {
      std::int64_t label = 0;
      try {
        label = dataset_.label(i, storage);
      } catch (const DamagedImage&) {
        label = 0;
      }
      sink(std::as_bytes(std::span(&label, 1)));
      progress.show(i + 1, images());
    }
  }

  void give_embeddings(const ByteSink& sink) {
    BufferedFile names(path(flags_.out).replace_extension(".names.txt"));
    std::vector<float> row(static_cast<std::size_t>(options_.embedding_size));
    Progress progress("embedding", "images");
    const auto take = [&](std::int64_t i, const EmbeddedImage& image) {
      const std::string name = one_line(dataset_.name(i));
      names.write(name + '\n');
      if (image.damage) {
        damages_.add(name, *image.damage);
        std::ranges::fill(row, 0.f);
      } else {
        add_mirrored(image, row);
      }
      sink(std::as_bytes(std::span(row)));
      progress.show(i + 1, images());
    };
    embed_images(images(), model_.reader_of(dataset_), model_.embed(), options_, take);
    names.commit();
  }

  const Dataset& dataset_;
  const LoadedModel& model_;
  const EmbedFlags& flags_;
  const EmbedOptions options_;
  Damages damages_;
};

void check_out_file(const path& out) {
  if (out.extension() == ".safetensors" || out.extension() == ".npy") return;
  throw InputError(
      fmt::format("--out {}: expected a name that ends with .safetensors or .npy", out.string()));
}

/// The people of another data set may be named there.
void keep_identities(const path& file, const std::string& people) {
  if (!something_at(file) || read_text(file, people.size() + 1) == people) return;
  throw InputError(file.string() +
                   ": is there already, and names other people than the data set; name another "
                   "folder for --out, or move the file away");
}

void run_embed(const EmbedFlags& flags) {
  check_out_file(flags.out);
  const TimePoint start = Clock::now();
  const LoadedModel model(flags.model);
  const auto dataset = open_images(flags.in, model.options(false).height, end_at_interrupt);
  const std::string people = names_of_people(*dataset, dataset->info().classes - 1);
  const path identities = flags.out.parent_path() / "identities.txt";
  keep_identities(identities, people);
  const std::vector<std::string> damaged = EmbeddingWriter(*dataset, model, flags).write();
  if (!people.empty()) write_file_atomically(identities, people);
  tell_damaged(damaged);
  const std::int64_t dimension = model.options(false).embedding_size;
  const nlohmann::json told{{"file", flags.out.string()},
                            {"images", dataset->info().images},
                            {"embedding_size", dimension},
                            {"damaged", damaged.size()},
                            {"seconds", seconds_since(start)}};
  if (flags.json) {
    std::printf("%s\n", told.dump(2).c_str());
  } else {
    std::printf("%s: %lld embeddings of %lld numbers, %zu damaged images have zeros (%.1f s)\n",
                flags.out.c_str(), static_cast<long long>(dataset->info().images),
                static_cast<long long>(dimension), damaged.size(), seconds_since(start));
  }
}

}  // namespace

void add_embed_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<EmbedFlags>();  // owned by the verb's callback
  CLI::App* verb = pfcctl.add_subcommand("embed", "Writes the embeddings of a data set");
  add_model_options(*verb, flags->model);
  verb->add_option("--in", flags->in, "A data set of any layout that trains, or folders of people")
      ->required();
  verb->add_option("--out", flags->out,
                   "F.safetensors with embeddings and labels, or F.npy and labels.npy beside it")
      ->required();
  verb->add_flag("--flip", flags->flip, "Adds the embedding of each mirror image");
  add_max_damaged(*verb, flags->max_damaged);
  verb->add_flag("--json", flags->json, "For programs");
  verb->footer(
      "Line k of F.names.txt names the image of row k. A job with \"network\": \"none\" trains on\n"
      "the file (docs/evaluate.md). Embeddings are not normalised. Example:\n"
      "  pfcctl embed --model out/backbone.safetensors --in /data/faces --out faces.safetensors");
  verb->callback([flags] { run_embed(*flags); });
}

}  // namespace pfc
