#include "pfcctl/data/embed/embedding_writer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"
#include "common/files/safetensors.h"
#include "common/one_line.h"
#include "data/damaged_image.h"
#include "data/records/writing/buffered_file.h"
#include "pfcctl/data/embed/damages.h"
#include "pfcctl/data/writing.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

std::string npy_header(const char* type, const std::string& shape) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.append(63 - (10 + header.size()) % 64, ' ') += '\n';  // numbers begin at a multiple of 64
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
         static_cast<char>(header.size() >> 8) + header;
}

/// Called if the labels beside `out` differ from the new ones. Throws InputError unless they belong
/// only to an earlier `out`.
void expect_own_labels(const fs::path& labels, const fs::path& out) {
  const auto entries = entries_of(out.has_parent_path() ? out.parent_path() : ".");
  const auto arrays =
      std::ranges::count_if(entries, [](const fs::path& p) { return p.extension() == ".npy"; });
  if (something_at(out) && arrays == 2) return;
  throw InputError(labels.string() +
                   ": already exists with other labels than this data set; choose another folder "
                   "for --out, or move the file away");
}

class EmbeddingWriter {
 public:
  EmbeddingWriter(const Dataset& dataset, const LoadedModel& model, const EmbeddingFiles& files)
      : dataset_(dataset),
        model_(model),
        files_(files),
        options_(model.options(files.flip)),
        damages_(dataset.info().images, files.max_damaged) {}

  const std::vector<std::string>& write() {
    BufferedFile names(path_of_names(files_.out));
    if (files_.out.extension() == ".npy") {
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
        files_.out, entries,
        {{"model", one_line(files_.model.string())}, {"data", one_line(files_.data.string())}});
  }

  void write_npy(BufferedFile& names) {
    const fs::path file = path_of_labels(files_.out);
    BufferedFile labels(file), embeddings(files_.out);
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
    if (earlier && !(same && rest.empty())) expect_own_labels(file, files_.out);

    embeddings.write(npy_header("<f4", fmt::format("({}, {})", images(), options_.embedding_size)));
    give_embeddings([&](std::span<const std::byte> bytes) { embeddings.write(bytes); }, names);
    // The old embeddings are removed first. So if the program is killed between the two renames,
    // the embeddings are missing, and no job pairs them with the labels of another run.
    as_storage_error([&] { std::filesystem::remove(files_.out); });
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
        model_.expect_usable(add_mirrored(image, row),
                             [&]() -> const std::string& { return name; });
      }
      sink(std::as_bytes(std::span(row)));
      progress.show(i + 1, images());
    };
    embed_images(images(), model_.reader_of(dataset_), model_.embed(), options_, take);
  }

  const Dataset& dataset_;
  const LoadedModel& model_;
  const EmbeddingFiles& files_;
  const EmbedOptions options_;
  Damages damages_;
};

/// Throws InputError if the file exists and names other people than this data set.
void expect_same_people(const fs::path& file, const std::string& people) {
  if (!something_at(file) || read_text(file, people.size() + 1) == people) return;
  throw InputError(file.string() +
                   ": already exists with other people than this data set; choose another folder, "
                   "or move the file away");
}

}  // namespace

fs::path path_of_names(fs::path embeddings) { return embeddings.replace_extension(".names.txt"); }

fs::path path_of_labels(const fs::path& embeddings) {
  return embeddings.parent_path() / "labels.npy";
}

std::vector<std::string> write_embeddings(const Dataset& dataset, const LoadedModel& model,
                                          const EmbeddingFiles& files) {
  const std::string people = names_of_people(dataset, dataset.info().classes - 1);
  const fs::path identities = files.out.parent_path() / "identities.txt";
  expect_same_people(identities, people);
  std::vector<std::string> damaged = EmbeddingWriter(dataset, model, files).write();
  if (!people.empty()) write_file_atomically(identities, people);
  return damaged;
}

}  // namespace pfc
