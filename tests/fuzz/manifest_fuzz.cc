// A checkpoint's manifest. If the input is a JSON object, its checksum is corrected first. Without
// this correction, the reader would reject almost every input because of its checksum.
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/files/sha256.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace {

namespace format = pfc::checkpoint_format;

format::Manifest example() {
  format::Manifest manifest;
  manifest.identity = {.job_id = "0123456789abcdef",
                       .trained = {.images = 1280,
                                   .step = 20,
                                   .next = {.epoch = 1, .position = 320},
                                   .planned = {2, 32, 1}},
                       .world_size = 2,
                       .global_batch = 64,
                       .classes = 100,
                       .embedding_size = 512,
                       .loss_scale = {},
                       .job = {{"network", "r50"}}};
  for (const char* name : {format::kBackbone, format::kBackboneOptimizer}) {
    manifest.files.push_back({.name = name, .bytes = 12, .sha256 = std::string(64, 'a')});
  }
  for (int rank = 0; rank < 2; ++rank) {
    manifest.files.push_back(
        {.name = format::centres_name(rank, 2), .bytes = 34, .sha256 = std::string(64, 'b')});
  }
  return manifest;
}

std::string with_checksum(std::string text) {
  nlohmann::json manifest = nlohmann::json::parse(text, nullptr, false);
  if (!manifest.is_object()) return text;
  manifest.erase("sha256");
  try {
    const std::string kept = manifest.dump();
    manifest["sha256"] = pfc::sha256_hex(std::as_bytes(std::span(kept)));
    return manifest.dump();
  } catch (const nlohmann::json::exception&) {  // text that is not UTF-8
    return text;
  }
}

}  // namespace

std::vector<std::string> pfc::fuzz::seeds() {
  const TemporaryFolder folder;
  const std::filesystem::path checkpoint = folder / format::folder_name(20);
  std::filesystem::create_directory(checkpoint);
  format::write_manifest(checkpoint, example());
  const std::vector<std::byte> text = testing::read_file(checkpoint / format::kManifest);
  return {{reinterpret_cast<const char*>(text.data()), text.size()}};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  const std::filesystem::path checkpoint = folder / format::folder_name(20);
  std::filesystem::create_directory(checkpoint);
  const std::string text = with_checksum({reinterpret_cast<const char*>(data), size});
  pfc::testing::write_file(checkpoint / format::kManifest, text);
  try {
    if (format::load_manifest(checkpoint).identity.trained.step != 20) __builtin_trap();
  } catch (const pfc::InputError&) {
  }
  return 0;
}
