#include "pfcctl/data/clean/computed_embeddings.h"

#include <string>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "pfcctl/data/embed/embedding_writer.h"
#include "pfcctl/data/pairs/pair_dataset.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/writing.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnFolder = "in";
constexpr const char* kTestFolder = "against";

bool is_own_embedding_file(const std::string& name) {
  return name.starts_with("embeddings.") || name.starts_with("identities.txt");
}

/// Returns the folder with the embeddings.
fs::path embedded(const Dataset& dataset, const fs::path& data, const LoadedModel& model,
                  const ModelFlags& flags, double max_damaged, const fs::path& folder) {
  expect_one_label(dataset, "pfcctl data clean");
  as_storage_error([&] { fs::create_directories(folder); });
  tell_damaged(write_embeddings(dataset, model,
                                {.out = folder / "embeddings.safetensors",
                                 .data = data,
                                 .model = flags.model,
                                 .max_damaged = max_damaged}));
  return folder;
}

}  // namespace

ComputedEmbeddings::ComputedEmbeddings(fs::path folder, bool keep)
    : folder_(std::move(folder)), keep_(keep) {
  if (!keep_) remove();
}

ComputedEmbeddings::~ComputedEmbeddings() {
  if (keep_) return;
  try {
    remove();
  } catch (const InputError&) {  // NOLINT(bugprone-empty-catch): the next run removes them
  }
}

void ComputedEmbeddings::remove() const {
  for (const char* part : {kOwnFolder, kTestFolder}) {
    remove_own_folder(folder_ / part, is_own_embedding_file);
  }
  std::error_code is_missing_or_in_use;
  fs::remove(folder_, is_missing_or_in_use);
}

CleanOptions ComputedEmbeddings::embed(const ModelFlags& flags, double max_damaged,
                                       CleanOptions options) const {
  const LoadedModel model(flags);
  const std::int64_t side = model.options(false).height;
  const auto open = [&](const fs::path& data) {
    return open_pairs_or_dataset({.rec = data, .image_size = side, .doing = end_at_interrupt});
  };
  const auto images = open(options.in);
  expect_images(*images, "clean --in");
  const auto test = options.against.empty() ? nullptr : open(options.against);
  options.embeddings =
      embedded(*images, options.in, model, flags, max_damaged, folder_ / kOwnFolder);
  if (test != nullptr && test->info().embedding_size == 0) {
    options.against_in = std::exchange(
        options.against,
        embedded(*test, options.against, model, flags, max_damaged, folder_ / kTestFolder));
  }
  return options;
}

}  // namespace pfc
