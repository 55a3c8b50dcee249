#include "pfcctl/evaluation/embed_dataset.h"

#include "common/error.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "pfcctl/data/writing.h"

namespace pfc {

ReadImage read_images_of(const Dataset& dataset, const EmbedOptions& options) {
  const ImageSize size{options.height, options.width};
  return [&dataset, size](std::int64_t image, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    thread_local std::vector<std::byte> storage;
    decoder.decode(dataset.read(image, storage).encoded, size, rgb);
  };
}

std::unique_ptr<Dataset> open_to_embed(const std::filesystem::path& data,
                                       const EmbedOptions& options) {
  auto dataset =
      open_dataset({.rec = data, .image_size = options.height, .doing = end_at_interrupt});
  if (dataset->info().embedding_size == 0) return dataset;
  throw InputError(data.string() + ": found embeddings, expected images");
}

void Damages::add(const std::string& name, const std::string& what) {
  all_.push_back(named_damage(name, DamagedImage(what)));
  expect_few_damaged(std::ssize(all_), images_, allowed_of(images_, allowed_part_), all_.front());
}

}  // namespace pfc
