#include "worker/checkpoint/kept_tables.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/folder.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
namespace fs = std::filesystem;

/// The oldest step of the checkpoints that name a folder of tables, by folder.
using OldestSteps = std::map<std::string, std::int64_t>;

constexpr std::size_t kMostText = std::size_t{16} << 20;

/// Returns whether a file is JSON that pfc has not written as the manifest of a checkpoint.
bool is_foreign(const fs::path& manifest) {
  const auto found = nlohmann::json::parse(read_text(manifest, kMostText), nullptr, false);
  if (found.is_discarded()) return false;  // a damaged manifest
  return !found.is_object() || found.value("format", nlohmann::json()) != "pfc checkpoint";
}

/// Throws InputError if a manifest cannot be read. Also looks into folders that have another name
/// than a checkpoint, because someone may have renamed them.
OldestSteps tables_in_use(const fs::path& output) {
  OldestSteps oldest;
  for (const fs::path& entry : entries_of(output)) {
    std::error_code error;
    if (format::is_temporary(entry.filename().string()) ||
        !fs::exists(entry / format::kManifest, error)) {
      continue;
    }
    if (is_foreign(entry / format::kManifest)) continue;
    const format::Identity id = format::load_manifest(entry).identity;
    if (!id.tables.kept()) continue;
    const auto [at, is_new] = oldest.try_emplace(id.tables.folder, id.trained.step);
    at->second = std::min(at->second, id.trained.step);
  }
  return oldest;
}

void remove_logs_before(const fs::path& folder, std::int64_t step) {
  for (const fs::path& file : entries_of(folder)) {
    const auto of_log = format::step_of_log(file.filename().string());
    if (!of_log || *of_log >= step) continue;
    std::error_code error;
    fs::remove(file, error);
    if (error) spdlog::warn("{}: cannot remove an old log: {}", file.string(), error.message());
  }
}

}  // namespace

KeptName kept_name(const fs::path& folder, const format::Identity& identity, Rank rank) {
  const fs::path manifest = fs::absolute(folder / format::kManifest).lexically_normal();
  return {manifest.parent_path().parent_path() / identity.tables.folder,
          format::tables_name(rank, identity.world_size)};
}

std::string tables_text(std::span<const FileTable> tables) {
  nlohmann::json list = nlohmann::json::array();
  for (const FileTable& t : tables) {
    list.push_back({{"name", t.name},
                    {"dtype", format::dtype_name(t.dtype)},
                    {"shape", {t.shape[0], t.shape[1]}},
                    {"offset", t.offset}});
  }
  return list.dump();
}

void add_tables(SafetensorsFile& file) {
  const auto found = file.metadata().find(format::kTables);
  constexpr std::array kNames{format::kWeight, format::kMomentum, format::kSecond};
  try {
    if (found == file.metadata().end()) throw InputError("");
    for (const nlohmann::json& t : nlohmann::json::parse(found->second)) {
      const auto name = t.at("name").get<std::string>();
      if (std::ranges::find(kNames, name) == kNames.end() || file.tensors().contains(name)) {
        throw InputError("");
      }
      file.add(name, {.dtype = t.at("dtype").get<std::string>(),
                      .shape = t.at("shape").get<std::vector<std::int64_t>>(),
                      .bytes = {},
                      .offset = t.at("offset").get<std::uint64_t>()});
    }
  } catch (const std::exception&) {
    throw InputError(file.path().string() +
                     ": expected the metadata \"tables\" as pfc writes it: a list of tables");
  }
}

std::string remove_unused_tables(const fs::path& output, const std::string& own,
                                 const RemoveFolder& remove) {
  OldestSteps in_use;
  try {
    in_use = tables_in_use(output);
  } catch (const InputError& error) {
    return error.what();
  }
  for (const fs::path& entry : entries_of(output)) {
    const std::string name = entry.filename().string();
    if (!format::is_tables_folder(name) || !fs::is_directory(fs::symlink_status(entry))) continue;
    if (const auto oldest = in_use.find(name); oldest != in_use.end()) {
      remove_logs_before(entry, oldest->second);
    } else if (name != own) {
      remove(entry);
    }
  }
  return "";
}

}  // namespace pfc
