#include "worker/checkpoint/checkpoint_format.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/config/config.h"
#include "common/config/json_reader.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/folder.h"
#include "common/files/mapped_file.h"
#include "common/files/sha256.h"
#include "worker/head/paging/kept_pages.h"

namespace pfc::checkpoint_format {
namespace {

using nlohmann::json;

constexpr const char* kFolderPrefix = "step-";
constexpr const char* kProbePrefix = ".shared-";
constexpr const char* kTablesPrefix = "class_centres.";
constexpr const char* kChecksum = "sha256";
constexpr JsonLimits kJsonLimits{.bytes = 16u << 20, .depth = 16};  // fits 100,000 workers

std::string digits(std::int64_t value, int width) {
  std::string text = std::to_string(value);
  if (text.size() < static_cast<std::size_t>(width)) {
    text.insert(0, static_cast<std::size_t>(width) - text.size(), '0');
  }
  return text;
}

std::string owner_text(const Owner& owner) {
  return owner.job_id + ".g" + std::to_string(owner.generation);
}

json to_json(const std::vector<File>& files) {
  json list = json::array();
  for (const File& f : files) {
    list.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  }
  return list;
}

/// Parses an integer; rejects values that only convert to one: 39.99 or 1e12.
template <typename Integer>
Integer whole_number(const json& value, const char* key) {
  const bool fits =
      value.is_number_unsigned()
          ? std::in_range<Integer>(value.get<std::uint64_t>())
          : value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  if (fits) return value.get<Integer>();
  throw InputError(std::string(key) + ": expected an integer, found " + value.dump().substr(0, 60));
}

template <typename Integer>
Integer whole(const json& object, const char* key) {
  return whole_number<Integer>(object.at(key), key);
}

std::vector<File> files_from_json(const json& list) {
  std::vector<File> files;
  for (const json& f : list) {
    files.push_back({.name = f.at("name").get<std::string>(),
                     .bytes = whole<std::uint64_t>(f, "bytes"),
                     .sha256 = f.at("sha256").get<std::string>()});
  }
  return files;
}

/// Reads a JSON file and passes it to `read`. Every error becomes an InputError that names the
/// file.
template <typename Read>
auto read_json(const std::filesystem::path& path, Read read) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const json content = parse_strict_json(text, path.string(), kJsonLimits);
  try {
    return read(content);
  } catch (const json::exception& e) {
    throw InputError(
        path.string() +
        ": expected a file of a checkpoint as pfc writes it, found other JSON: " + problem_of(e));
  } catch (const InputError& e) {
    throw InputError(path.string() + ": " + e.what());
  }
}

LossScale::State loss_scale_of(const json& manifest) {
  const json& scale = manifest.at("loss_scale");
  LossScale::State state{.value = scale.at("value").get<double>(),
                         .finite_updates = whole<std::int64_t>(scale, "finite_updates")};
  if (scale.contains("updates")) {
    state.updates = whole<std::int64_t>(scale, "updates");
  } else {  // older manifest: every step was an update, except updates_left_out
    const bool counted = scale.contains("updates_left_out");
    const std::int64_t left_out = counted ? whole<std::int64_t>(scale, "updates_left_out") : 0;
    state.updates = std::max<std::int64_t>(0, whole<std::int64_t>(manifest, "step") - left_out);
  }
  return state;
}

std::string checksum_of(json manifest) {
  manifest.erase(kChecksum);
  const std::string text = manifest.dump();
  return sha256_hex(std::as_bytes(std::span(text)));
}

void check_version(const json& manifest) {
  const int version = whole<int>(manifest, "version");
  if (version < 1 || version > kVersion) {
    throw InputError("version " + std::to_string(version) + ", expected 1 to " +
                     std::to_string(kVersion));
  }
  if (version == 1) return;
  const std::string expected = manifest.at(kChecksum).get<std::string>();
  const std::string found = checksum_of(manifest);
  if (found != expected) {
    throw InputError("sha256 of its other keys is " + found + ", expected " + expected +
                     ": the manifest is damaged, or was edited");
  }
}

/// Returns a number from the job's keys, or 0 if it is missing.
std::int64_t number_of_job(const json& job, const char* key) {
  const bool there = job.is_object() && job.contains(key);
  return there ? whole<std::int64_t>(job, key) : 0;
}

/// Compares the manifest with the step in the folder's name and the job's global batch.
void check_agrees(const Identity& id, const std::string& folder_name_) {
  const auto named = step_of(folder_name_);
  if (named && *named != id.trained.step) {
    throw InputError("step " + std::to_string(id.trained.step) + " in the folder " + folder_name_);
  }
  std::int64_t batch = id.world_size;
  const bool too_large =
      __builtin_mul_overflow(batch, number_of_job(id.job, "batch_size"), &batch) ||
      __builtin_mul_overflow(batch, number_of_job(id.job, "gradient_acc"), &batch);
  if (too_large || (batch != 0 && batch != id.global_batch)) {
    throw InputError("global_batch is " + std::to_string(id.global_batch) +
                     ", but world_size x batch_size x gradient_acc is " + std::to_string(batch));
  }
}

void check_in_range(const Identity& id) {
  // Limits of numbers, so that sums and products of a few of them do not overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 50, kMostSteps = std::int64_t{1} << 40;
  constexpr std::int64_t kMostOfAStep = 1 << 20;
  const auto within = [](std::int64_t low, std::int64_t value, std::int64_t high) {
    return low <= value && value <= high;
  };
  const TrainedSoFar& t = id.trained;
  const bool all_within = within(0, t.step, kMostSteps) && within(1, id.world_size, kMostOfAStep) &&
                          within(1, id.global_batch, kMost) && within(t.step, t.images, kMost) &&
                          within(0, t.next.epoch, kMost) && within(0, t.next.position, kMost) &&
                          within(1, t.planned.world_size, kMostOfAStep) &&
                          within(1, t.planned.batch_size, kMostOfAStep) &&
                          within(1, t.planned.gradient_acc, kMostOfAStep) &&
                          within(0, id.classes, kMost) && within(1, id.embedding_size, kMost) &&
                          within(0, id.loss_scale.updates, t.images);
  if (!all_within) throw InputError("step, world_size or another number is out of range");
  if (!within(1, id.sample_unit, 64) ||
      !std::has_single_bit(static_cast<std::uint64_t>(id.sample_unit))) {
    throw InputError("positions: sample_unit is " + std::to_string(id.sample_unit) +
                     ", expected a power of two up to 64");
  }
}

/// Reads a manifest of version 1 or 2. Assumes that the number of workers has not changed.
TrainedSoFar trained_of_steps(const json& m) {
  const auto step = whole<std::int64_t>(m, "step");
  const auto batch = whole<std::int64_t>(m, "global_batch");
  TrainedSoFar trained{.step = step};
  if (step < 0 || batch < 1 || __builtin_mul_overflow(step, batch, &trained.images)) {
    throw InputError("step or global_batch is out of range");
  }
  const json& job = m.at("job");
  trained.planned = {.world_size = std::max<std::int64_t>(whole<int>(m, "world_size"), 1),
                     .batch_size = std::max<std::int64_t>(number_of_job(job, "batch_size"), 1),
                     .gradient_acc = std::max<std::int64_t>(number_of_job(job, "gradient_acc"), 1)};
  const std::int64_t images = number_of_job(job, "num_image");
  const std::int64_t micro_batch = std::max<std::int64_t>(batch / trained.planned.gradient_acc, 1);
  if (images < micro_batch) {
    trained.next.position = trained.images;
    return trained;
  }
  const std::int64_t micro_batches = trained.images / micro_batch;
  const std::int64_t per_epoch = images / micro_batch;
  trained.next = {.epoch = micro_batches / per_epoch,
                  .position = micro_batches % per_epoch * micro_batch};
  return trained;
}

TrainedSoFar trained_of(const json& m) {
  if (whole<int>(m, "version") < 3) return trained_of_steps(m);
  const json& trained = m.at("trained");
  const json& next = trained.at("next");
  const json& planned = trained.at("planned");
  return {.images = whole<std::int64_t>(trained, "images"),
          .step = whole<std::int64_t>(m, "step"),
          .next = {.epoch = whole<std::int64_t>(next, "epoch"),
                   .position = whole<std::int64_t>(next, "position")},
          .planned = {.world_size = whole<std::int64_t>(planned, "world_size"),
                      .batch_size = whole<std::int64_t>(planned, "batch_size"),
                      .gradient_acc = whole<std::int64_t>(planned, "gradient_acc")}};
}

std::vector<int> threads_of(const json& m) {
  std::vector<int> threads;
  if (!m.contains("threads")) return threads;  // an older manifest
  for (const json& each : m["threads"]) threads.push_back(whole_number<int>(each, "threads"));
  return threads;
}

LossState loss_state_of(const json& m) {
  return m.contains("loss_state") ? pfc::loss_state_of(m["loss_state"]) : LossState{};
}

std::vector<std::string> data_of(const json& m) {
  return m.contains("data") ? m["data"].get<std::vector<std::string>>()
                            : std::vector<std::string>();  // an older manifest
}

/// Rejects names that are paths.
Tables tables_of(const json& m) {
  if (!m.contains(kTables)) return {};
  Tables tables{.folder = m[kTables].at("folder").get<std::string>(),
                .checkpoint = m[kTables].at("checkpoint").get<std::string>()};
  if (!is_tables_folder(tables.folder) || tables.checkpoint.find('/') != std::string::npos) {
    throw InputError("tables: expected the folder and checkpoint of class centres, found " +
                     m[kTables].dump().substr(0, 200));
  }
  return tables;
}

Manifest manifest_of(const json& m, const std::string& folder_name_) {
  check_version(m);
  // One statement for each member: if a function throws inside of braces within braces, g++ 12
  // destroys the identity's members twice.
  Manifest manifest;
  Identity& id = manifest.identity;
  id.job_id = m.value("job_id", "");
  id.trained = trained_of(m);
  id.world_size = whole<int>(m, "world_size");
  id.global_batch = whole<std::int64_t>(m, "global_batch");
  id.classes = whole<std::int64_t>(m, "classes");
  id.embedding_size = whole<std::int64_t>(m, "embedding_size");
  id.tables = tables_of(m);
  id.loss_scale = loss_scale_of(m);
  id.loss_state = loss_state_of(m);
  id.threads = threads_of(m);
  id.data = data_of(m);
  id.job = m.at("job");
  manifest.files = files_from_json(m.at("files"));
  if (m.contains("positions")) {
    const json& positions = m["positions"];
    id.sample_unit = whole<std::int64_t>(positions, "sample_unit");
    id.position_seed = whole<std::uint64_t>(positions, "seed");
  }
  check_in_range(id);
  check_agrees(id, folder_name_);
  return manifest;
}

}  // namespace

std::string folder_name(std::int64_t step) { return kFolderPrefix + digits(step, 9); }

std::optional<std::int64_t> step_of(const std::string& folder_name_) {
  const std::string_view name = folder_name_;
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  const std::string_view number = name.substr(std::string_view(kFolderPrefix).size());
  std::int64_t step = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), step);
  if (parsed.ec != std::errc() || step < 0 || folder_name(step) != folder_name_) {
    return std::nullopt;
  }
  return step;
}

std::string temporary_name(std::int64_t step, const Owner& owner) {
  return "." + folder_name(step) + "." + owner_text(owner) + ".tmp";
}

std::string removed_name(std::int64_t step, const Owner& owner, int number) {
  return "." + folder_name(step) + "." + owner_text(owner) + ".old-" + std::to_string(number) +
         ".tmp";
}

std::string set_aside_name(std::int64_t step, int number) {
  return folder_name(step) + ".set-aside-" + std::to_string(number);
}

bool is_removed(const std::string& name) {
  return is_temporary(name) && name.find(".old-") != std::string::npos;
}

std::string probe_name(const std::string& random) { return kProbePrefix + random + ".tmp"; }

bool is_temporary(const std::string& name) {
  const bool ours =
      name.starts_with(std::string(".") + kFolderPrefix) || name.starts_with(kProbePrefix);
  return ours && name.ends_with(".tmp");
}

std::string centres_name(Rank rank, int world_size) {
  return "centres-" + tables_name(rank, world_size) + ".safetensors";
}

std::string part_name(Rank rank) { return "part-" + digits(rank, 5) + ".json"; }

bool is_file_name(const std::string& written) {
  constexpr std::string_view kBeingWritten = ".tmp";  // AtomicFile's
  std::string_view name = written;
  if (name.ends_with(kBeingWritten)) name.remove_suffix(kBeingWritten.size());
  for (const char* one :
       {kManifest, kBackbone, kBackboneOptimizer, kBackboneAverage, kNeighboursFile}) {
    if (name == one) return true;
  }
  const auto numbered = [name](std::string_view begin, std::string_view end) {
    if (!name.starts_with(begin) || !name.ends_with(end)) return false;
    const std::string_view numbers =
        name.substr(begin.size(), name.size() - begin.size() - end.size());
    return !numbers.empty() && numbers.find_first_not_of("0123456789-of") == numbers.npos;
  };
  return numbered("centres-", ".safetensors") || numbered("part-", ".json");
}

std::string tables_folder(const Owner& owner) { return kTablesPrefix + owner_text(owner); }

std::string tables_name(Rank rank, int world_size) {
  return digits(rank, 5) + "-of-" + digits(world_size, 5);
}

std::string tables_checkpoint(std::int64_t step, const Owner& owner) {
  return digits(step, 9) + "." + owner_text(owner);
}

bool is_tables_folder(const std::string& name) {
  return name.starts_with(kTablesPrefix) && name.find(".g") != std::string::npos &&
         name.find('/') == std::string::npos;
}

bool is_tables_file(const std::string& name) {
  const std::size_t end = std::min(name.find_first_not_of("0123456789-of"), name.size());
  const std::string kind = name.substr(end);
  return end > 0 && (kind == ".pages" || kind == ".json" || kind == ".json.tmp" ||
                     kind.starts_with(KeptName::kLog));
}

std::optional<std::int64_t> step_of_log(const std::string& file_name) {
  const std::string_view name = file_name, mark = KeptName::kLog;
  const std::size_t at = name.find(mark);
  if (at == name.npos) return std::nullopt;
  const std::string_view number = name.substr(at + mark.size());
  std::int64_t step = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), step);
  return parsed.ec == std::errc() ? std::optional(step) : std::nullopt;
}

std::string dtype_name(DType type) {
  if (type == DType::kInt8) return "I8";
  if (type == DType::kFloat8) return "F8_E4M3";
  return type == DType::kBFloat16 ? "BF16" : "F32";
}

json Identity::value_of(const char* key, const json& older) const {
  return job.is_object() && job.contains(key) ? job[key] : older;
}

bool Identity::same_model(const Identity& other) const {
  const auto same = [&](const char* key, const json& older) {
    return value_of(key, older) == other.value_of(key, older);
  };
  return classes == other.classes && embedding_size == other.embedding_size &&
         same("network", {}) && same("feature_size", 0) && same("sub_centres", 1) &&
         same("image_mean", PixelScale{}.mean) && same("image_std", PixelScale{}.std);
}

bool Manifest::has(const std::string& name) const {
  return std::ranges::find(files, name, &File::name) != files.end();
}

const File& Manifest::file(const std::filesystem::path& folder, const std::string& name) const {
  const auto found = std::ranges::find(files, name, &File::name);
  if (found == files.end()) {
    throw InputError((folder / kManifest).string() + ": lists no file " + name);
  }
  return *found;
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  const Identity& id = manifest.identity;
  json text = {
      {"format", "pfc checkpoint"},
      {"version", id.tables.kept()     ? kVersion
                  : id.sample_unit > 1 ? 4
                                       : 3},
      {"job_id", id.job_id},
      {"step", id.trained.step},
      {"trained",
       {{"images", id.trained.images},
        {"next", {{"epoch", id.trained.next.epoch}, {"position", id.trained.next.position}}},
        {"planned",
         {{"world_size", id.trained.planned.world_size},
          {"batch_size", id.trained.planned.batch_size},
          {"gradient_acc", id.trained.planned.gradient_acc}}}}},
      {"world_size", id.world_size},
      {"global_batch", id.global_batch},
      {"classes", id.classes},
      {"embedding_size", id.embedding_size},
      {"loss_scale",
       {{"value", id.loss_scale.value},
        {"finite_updates", id.loss_scale.finite_updates},
        {"updates", id.loss_scale.updates}}},
      {"loss_state", pfc::to_json(id.loss_state)},
      {"threads", id.threads},
      {"data", id.data},
      {"job", id.job},
      {"files", to_json(manifest.files)}};
  if (id.sample_unit > 1) {
    text["positions"] = {{"sample_unit", id.sample_unit}, {"seed", id.position_seed}};
  }
  if (id.tables.kept()) {
    text[kTables] = {{"folder", id.tables.folder}, {"checkpoint", id.tables.checkpoint}};
  }
  text[kChecksum] = checksum_of(text);
  write_file_atomically(folder / kManifest, text.dump(2) + "\n");
}

Manifest load_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifest;
  std::error_code error;  // an unreadable path is reported when it is read
  if (!std::filesystem::exists(path, error) && !error) {
    throw InputError(folder.string() + ": no " + kManifest +
                     " in this folder: the checkpoint is incomplete");
  }
  return read_json(path, [&](const json& m) { return manifest_of(m, folder.filename().string()); });
}

std::vector<Published> published(const std::filesystem::path& output) {
  std::vector<Published> found;
  for (const std::filesystem::path& entry : entries_of(output)) {
    if (!step_of(entry.filename().string())) continue;
    found.push_back({.folder = entry});
    try {
      found.back().identity = load_manifest(entry).identity;
    } catch (const InputError& error) {
      found.back().damage = error.what();  // an older checkpoint may be whole
    }
  }
  std::ranges::sort(found, std::greater{}, [](const Published& p) {
    return std::pair(p.identity ? p.identity->trained.images : -1, p.folder);
  });
  return found;
}

void write_part(const std::filesystem::path& folder, Rank rank, const std::vector<File>& files) {
  write_file_atomically(folder / part_name(rank), to_json(files).dump());
}

std::vector<File> read_part(const std::filesystem::path& folder, Rank rank) {
  return read_json(folder / part_name(rank),
                   [](const json& list) { return files_from_json(list); });
}

}  // namespace pfc::checkpoint_format
