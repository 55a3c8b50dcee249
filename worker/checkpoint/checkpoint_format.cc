#include "worker/checkpoint/checkpoint_format.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "common/config/json_reader.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/mapped_file.h"

namespace pfc::checkpoint_format {
namespace {

using nlohmann::json;

constexpr const char* kPrefix = "step-";
constexpr std::size_t kMaxJsonBytes = 64u << 20;

std::string digits(std::int64_t value, int width) {
  std::string text = std::to_string(value);
  if (text.size() < static_cast<std::size_t>(width)) {
    text.insert(0, static_cast<std::size_t>(width) - text.size(), '0');
  }
  return text;
}

json to_json(const std::vector<File>& files) {
  json list = json::array();
  for (const File& f : files) {
    list.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  }
  return list;
}

std::vector<File> files_of(const json& list) {
  std::vector<File> files;
  for (const json& f : list) {
    files.push_back({.name = f.at("name").get<std::string>(),
                     .bytes = f.at("bytes").get<std::uint64_t>(),
                     .sha256 = f.at("sha256").get<std::string>()});
  }
  return files;
}

/// Reads a JSON file and passes it to `read`. Every error becomes an InputError that names the
/// file.
template <typename Read>
auto read_json(const std::filesystem::path& path, Read read) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxJsonBytes) {
    throw InputError(path.string() + ": " + std::to_string(file.bytes().size()) +
                     " bytes, expected at most " + std::to_string(kMaxJsonBytes));
  }
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  try {
    return read(json::parse(text, text + file.bytes().size()));
  } catch (const json::exception& e) {
    throw InputError(path.string() +
                     ": expected what pfc writes for a checkpoint, found JSON with " +
                     "another content: " + problem_of(e));
  }
}

LossScale::State loss_scale_of(const json& manifest) {
  const json& scale = manifest.at("loss_scale");
  return {scale.at("value").get<double>(), scale.at("finite_updates").get<std::int64_t>()};
}

}  // namespace

std::string folder_name(std::int64_t step) { return kPrefix + digits(step, 9); }

std::optional<std::int64_t> step_of(const std::string& folder_name_) {
  const std::string_view name = folder_name_;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view number = name.substr(std::string_view(kPrefix).size());
  std::int64_t step = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), step);
  if (parsed.ec != std::errc() || step < 0 || folder_name(step) != folder_name_) {
    return std::nullopt;
  }
  return step;
}

std::string temporary_name(std::int64_t step, Generation generation) {
  return "." + folder_name(step) + ".g" + std::to_string(generation) + ".tmp";
}

std::string removed_name(std::int64_t step, Generation generation, int number) {
  return "." + folder_name(step) + ".g" + std::to_string(generation) + ".old-" +
         std::to_string(number) + ".tmp";
}

bool is_removed(const std::string& name) {
  return is_temporary(name) && name.find(".old-") != std::string::npos;
}

bool is_temporary(const std::string& name) {
  return name.starts_with(std::string(".") + kPrefix) && name.ends_with(".tmp");
}

std::string centres_name(Rank rank, int world_size) {
  return "centres-" + digits(rank, 5) + "-of-" + digits(world_size, 5) + ".safetensors";
}

std::string part_name(Rank rank) { return "part-" + digits(rank, 5) + ".json"; }

const File& Manifest::file(const std::filesystem::path& folder, const std::string& name) const {
  const auto found = std::ranges::find(files, name, &File::name);
  if (found == files.end()) {
    throw InputError((folder / kManifest).string() + ": lists no file " + name);
  }
  return *found;
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  const Identity& id = manifest.identity;
  const json text = {
      {"format", "pfc checkpoint"},
      {"version", kVersion},
      {"step", id.step},
      {"world_size", id.world_size},
      {"global_batch", id.global_batch},
      {"classes", id.classes},
      {"embedding_size", id.embedding_size},
      {"loss_scale",
       {{"value", id.loss_scale.value}, {"finite_updates", id.loss_scale.finite_updates}}},
      {"job", id.job},
      {"files", to_json(manifest.files)}};
  write_file_atomically(folder / kManifest, text.dump(2) + "\n");
}

Manifest load_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifest;
  if (!std::filesystem::exists(path)) {
    throw InputError(folder.string() + ": no " + kManifest + " in it: not a whole checkpoint");
  }
  Manifest manifest = read_json(path, [&](const json& m) {
    const int version = m.at("version").get<int>();
    if (version != kVersion) {
      throw InputError(path.string() + ": version " + std::to_string(version) + ", expected " +
                       std::to_string(kVersion));
    }
    return Manifest{.identity = {.step = m.at("step").get<std::int64_t>(),
                                 .world_size = m.at("world_size").get<int>(),
                                 .global_batch = m.at("global_batch").get<std::int64_t>(),
                                 .classes = m.at("classes").get<std::int64_t>(),
                                 .embedding_size = m.at("embedding_size").get<std::int64_t>(),
                                 .loss_scale = loss_scale_of(m),
                                 .job = m.at("job")},
                    .files = files_of(m.at("files"))};
  });
  const Identity& id = manifest.identity;
  std::int64_t images_seen = 0;
  if (id.step < 0 || id.world_size < 1 || id.global_batch < 0 || id.classes < 0 ||
      id.embedding_size < 1 || __builtin_mul_overflow(id.step, id.global_batch, &images_seen)) {
    throw InputError(path.string() + ": step, world_size or another number is out of range");
  }
  return manifest;
}

std::vector<Published> published(const std::filesystem::path& output) {
  std::vector<Published> found;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(output, missing)) {
    if (!step_of(entry.path().filename().string())) continue;
    found.push_back({.folder = entry.path()});
    try {
      found.back().identity = load_manifest(entry.path()).identity;
    } catch (const InputError& error) {
      found.back().damage = error.what();  // an older checkpoint may be whole
    }
  }
  std::ranges::sort(found, std::greater{}, [](const Published& p) {
    return std::pair(p.identity ? p.identity->images_seen() : -1, p.folder);
  });
  return found;
}

void write_part(const std::filesystem::path& folder, Rank rank, const std::vector<File>& files) {
  write_file_atomically(folder / part_name(rank), to_json(files).dump());
}

std::vector<File> read_part(const std::filesystem::path& folder, Rank rank) {
  return read_json(folder / part_name(rank), [](const json& list) { return files_of(list); });
}

}  // namespace pfc::checkpoint_format
