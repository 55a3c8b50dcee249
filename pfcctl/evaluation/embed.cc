// pfcctl embed: writes the embeddings of a data set.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors.h"
#include "common/one_line.h"
#include "data/records/writing/buffered_file.h"
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

path names_beside(path out) { return out.replace_extension(".names.txt"); }
path labels_beside(const path& out) { return out.parent_path() / "labels.npy"; }

std::string npy_header(const char* type, const std::string& shape) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.append(63 - (10 + header.size()) % 64, ' ') += '\n';  // numbers begin at a multiple of 64
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
         static_cast<char>(header.size() >> 8) + header;
}

/// Called if the labels beside `out` differ from the new ones. Throws InputError unless they belong
/// only to an earlier `out`.
void expect_own_labels(const path& labels, const path& out) {
  const auto entries = entries_of(out.has_parent_path() ? out.parent_path() : ".");
  const auto arrays =
      std::ranges::count_if(entries, [](const path& p) { return p.extension() == ".npy"; });
  if (something_at(out) && arrays == 2) return;
  throw InputError(labels.string() +
                   ": already exists with other labels than this data set; choose another folder "
                   "for --out, or move the file away");
}

/// Embeds a data set and writes its files, which all appear after the last row was computed. Memory
/// does not grow with the number of images, except in the open data set.
class EmbeddingWriter {
 public:
  EmbeddingWriter(const Dataset& dataset, const LoadedModel& model, const EmbedFlags& flags)
      : dataset_(dataset),
        model_(model),
        flags_(flags),
        options_(model.options(flags.flip)),
        damages_(dataset.info().images, flags.max_damaged) {}

  const std::vector<std::string>& write() {
    BufferedFile names(names_beside(flags_.out));
    if (flags_.out.extension() == ".npy") {
      write_npy(names);
    } else {
      write_tensors(names);
    }
    names.commit();
    return damages_.all();
  }

 private:
  [[nodiscard]] std::int64_t images() const { return dataset_.info().images; }

  void write_tensors(BufferedFile& names) {
    const std::vector<SafetensorsEntry> entries{
        {.name = "labels",
         .dtype = "I64",
         .shape = {images()},
         .pieces = [&](const ByteSink& sink) { give_labels(sink); }},
        {.name = "embeddings",
         .dtype = "F32",
         .shape = {images(), options_.embedding_size},
         .pieces = [&](const ByteSink& sink) { give_embeddings(sink, names); }}};
    write_safetensors(
        flags_.out, entries,
        {{"model", one_line(flags_.model.model.string())}, {"data", one_line(flags_.in.string())}});
  }

  void write_npy(BufferedFile& names) {
    const path file = labels_beside(flags_.out);
    BufferedFile labels(file), embeddings(flags_.out);
    std::optional<MappedFile> earlier;
    if (something_at(file)) earlier.emplace(file);
    std::span<const std::byte> rest = earlier ? earlier->bytes() : std::span<const std::byte>();
    bool same = true;
    const auto put = [&](std::span<const std::byte> bytes) {
      labels.write(bytes);
      same = same && bytes.size() <= rest.size() &&
             std::ranges::equal(bytes, rest.first(bytes.size()));
      if (same) rest = rest.subspan(bytes.size());
    };
    const std::string header = npy_header("<i8", fmt::format("({},)", images()));
    put(std::as_bytes(std::span(header)));
    give_labels(put);
    if (earlier && !(same && rest.empty())) expect_own_labels(file, flags_.out);

    embeddings.write(npy_header("<f4", fmt::format("({}, {})", images(), options_.embedding_size)));
    give_embeddings([&](std::span<const std::byte> bytes) { embeddings.write(bytes); }, names);
    // The old embeddings are removed first. So if the program is killed between the two renames,
    // the embeddings are missing, and no job pairs them with the labels of another run.
    as_storage_error([&] { std::filesystem::remove(flags_.out); });
    labels.commit();
    embeddings.commit();
  }

  /// The label of an unreadable image is 0. Its embedding is zero, and readers skip it.
  void give_labels(const ByteSink& sink) const {
    ImageBuffer storage;
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

  void give_embeddings(const ByteSink& sink, BufferedFile& names) {
    std::vector<float> row(static_cast<std::size_t>(options_.embedding_size));
    Progress progress("embedding", "images");
    const auto take = [&](std::int64_t i, const EmbeddedImage& image) {
      const std::string name = one_line(dataset_.name(i));
      names.write(name + '\n');
      if (image.damage) {
        damages_.add(name, *image.damage);
        std::ranges::fill(row, 0.f);
      } else {
        model_.expect_usable(add_mirrored(image, row), [&] { return name; });
      }
      sink(std::as_bytes(std::span(row)));
      progress.show(i + 1, images());
    };
    embed_images(images(), model_.reader_of(dataset_), model_.embed(), options_, take);
  }

  const Dataset& dataset_;
  const LoadedModel& model_;
  const EmbedFlags& flags_;
  const EmbedOptions options_;
  Damages damages_;
};

void check_out_file(const EmbedFlags& flags) {
  const path& out = flags.out;
  const bool npy = out.extension() == ".npy";
  if ((!npy && out.extension() != ".safetensors") || out.filename() == "labels.npy") {
    throw InputError(fmt::format(
        "--out {}: expected a file name that ends with .safetensors or .npy, and is not labels.npy",
        out.string()));
  }
  std::error_code error;
  if (std::filesystem::is_directory(flags.in, error) && way_within(flags.in, out)) {
    throw InputError(out.string() + ": --out is inside the data set; choose another folder");
  }
  const path other = path(out).replace_extension(npy ? ".safetensors" : ".npy");
  if (something_at(other)) {
    throw InputError(fmt::format(
        "{}: already exists, and {} names its images; choose another name than {} for --out",
        other.string(), names_beside(out).string(), out.string()));
  }
  const std::array inputs{flags.model.model, flags.in};
  for (const path& written : {out, names_beside(out), npy ? labels_beside(out) : out}) {
    expect_not_an_input(written, inputs);
  }
}

/// Throws InputError if the file exists and names other people than this data set.
void keep_identities(const path& file, const std::string& people) {
  if (!something_at(file) || read_text(file, people.size() + 1) == people) return;
  throw InputError(file.string() +
                   ": already exists with other people than this data set; choose another folder "
                   "for --out, or move the file away");
}

void run_embed(const EmbedFlags& flags) {
  check_out_file(flags);
  const TimePoint start = Clock::now();
  const LoadedModel model(flags.model);
  const auto dataset = open_images(flags.in, model.options(false).height, end_at_interrupt);
  expect_one_label(*dataset, "pfcctl embed");
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
    std::fputs(json_text(told).c_str(), stdout);
  } else {
    std::printf("%s: %lld embeddings of %lld numbers, %s with a row of zeros (%.1f s)\n",
                one_line(flags.out.string()).c_str(),
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
  verb->add_option("--in", flags->in,
                   "A data set in any layout that pfc trains on, for example one folder for each "
                   "person")
      ->required();
  verb->add_option("--out", flags->out,
                   "F.safetensors for embeddings and labels, or F.npy, which gets labels.npy in "
                   "the same folder")
      ->required();
  verb->add_flag("--flip", flags->flip, "Adds the embedding of the mirror image to each embedding");
  add_max_damaged(*verb, flags->max_damaged);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Line k of F.names.txt names the image of row k. A job with \"network\": \"none\" trains on\n"
      "the file (docs/evaluate.md). Embeddings are not normalised. Example:\n"
      "  pfcctl embed --model out/backbone.safetensors --in /data/faces --out faces.safetensors");
  verb->callback([flags] { run_embed(*flags); });
}

}  // namespace pfc
