#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "common/config/json_reader.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/one_line.h"
#include "worker/head/step_file.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestText = 100;  // characters of metadata shown in a message

using std::filesystem::path;
using Shape64 = std::vector<std::int64_t>;

/// One file. Its tensors have been checked, but not yet compared with those of other files.
struct Part {
  SafetensorsFile file;
  std::int64_t samples = 0, rows = 0, dimension = 0;
  std::int64_t columns = 0;  // of the centres: dimension, or 1 more for a bias
  std::span<const float> embeddings, centres, momentum, second, d_embeddings;
  std::span<const std::int64_t> labels, classes;
  std::span<const std::byte> active;                          // [micro-batches, rows]; empty: all
  bool all_classes = true;                                    // no tensor `classes`
  std::int64_t rank = -1, world_size = 0, micro_batches = 1;  // from the metadata

  [[nodiscard]] std::string name() const { return file.path().string(); }
  [[nodiscard]] bool has(const std::string& tensor) const {
    return file.tensors().contains(tensor);
  }
};

std::vector<path> files_of(std::span<const path> paths) {
  std::vector<path> files;
  for (const path& p : paths) {
    if (!std::filesystem::is_directory(p)) {
      files.push_back(p);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(p)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    if (files.size() == before) {
      throw InputError(p.string() + ": no *.safetensors in this folder");
    }
  }
  return files;
}

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& name,
                         const std::string& expected) {
  const SafetensorsFile::Tensor& found = file.at(name);
  throw InputError(file.path().string() + ": " + name + " is " + found.dtype + " " +
                   shape_text(found.shape) + ", expected " + expected);
}

/// Returns the shape. Throws unless it is a float32 matrix of `least` rows or more.
const Shape64& matrix_shape(const SafetensorsFile& file, const std::string& name,
                            std::int64_t least, const std::string& expected) {
  const SafetensorsFile::Tensor& t = file.at(name);
  const bool fits =
      t.dtype == "F32" && t.shape.size() == 2 && t.shape[0] >= least && t.shape[1] >= 1;
  if (!fits) refuse(file, name, expected);
  return t.shape;
}

std::span<const std::int64_t> read_integers(const SafetensorsFile& file, const std::string& name,
                                            std::int64_t count) {
  const SafetensorsFile::Tensor& t = file.at(name);
  if (t.dtype != "I64" || t.shape != Shape64{count}) {
    refuse(file, name, "I64 " + shape_text(Shape64{count}));
  }
  return {reinterpret_cast<const std::int64_t*>(t.bytes.data()), static_cast<std::size_t>(count)};
}

/// Reads labels [samples], or several for each sample: [samples, labels of a sample].
std::span<const std::int64_t> read_labels(const SafetensorsFile& file, std::int64_t samples) {
  const SafetensorsFile::Tensor& t = file.at("labels");
  if (t.shape.size() != 2) return read_integers(file, "labels", samples);
  if (t.dtype != "I64" || t.shape[0] != samples || t.shape[1] < 1) {
    refuse(file, "labels", "I64 [" + std::to_string(samples) + ", L]");
  }
  return {reinterpret_cast<const std::int64_t*>(t.bytes.data()),
          static_cast<std::size_t>(samples * t.shape[1])};
}

/// Parses a metadata value, which is JSON.
nlohmann::json parsed(const SafetensorsFile& file, const char* key, const std::string& text) {
  return parse_strict_json(text, file.path().string() + ": metadata " + key);
}

/// Returns a number from the metadata, or `otherwise` if there is none.
nlohmann::json number(const SafetensorsFile& file, const char* key, nlohmann::json otherwise) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return otherwise;
  nlohmann::json value = parsed(file, key, found->second);
  if (!value.is_number() || (otherwise.is_number_integer() && !value.is_number_integer())) {
    throw InputError(file.path().string() + ": metadata " + key + " is '" +
                     found->second.substr(0, 40) + "', expected a number");
  }
  return value;
}

/// Returns a flag for each micro-batch and row: whether the row takes part.
std::span<const std::byte> active_flags(const Part& part) {
  if (!part.has("active")) return {};
  const SafetensorsFile::Tensor& t = part.file.at("active");
  const Shape64 shape{part.micro_batches, part.rows};
  if (part.all_classes || t.dtype != "U8" || t.shape != shape) {
    refuse(part.file, "active", "U8 " + shape_text(shape) + " together with a tensor classes");
  }
  return t.bytes;
}

std::int64_t read_micro_batches(const Part& part) {
  const auto count = number(part.file, step_file::kMicroBatches, 1).get<std::int64_t>();
  if (count >= 1 && part.samples % count == 0) return count;
  throw InputError(part.name() + ": metadata " + step_file::kMicroBatches + " is " +
                   std::to_string(count) + ", expected a number that divides the " +
                   std::to_string(part.samples) + " embeddings into equal micro-batches");
}

Part open_part(const path& from) {
  Part part{.file = SafetensorsFile(from)};
  const SafetensorsFile& file = part.file;
  const Shape64& x = matrix_shape(file, "embeddings", 1, "F32 [N, D]");
  part.samples = x[0];
  part.dimension = x[1];
  part.embeddings = file.float32("embeddings", x);
  part.labels = read_labels(file, part.samples);
  part.all_classes = !part.has("classes");
  const std::string d = std::to_string(part.dimension) + "]";
  const Shape64& w = matrix_shape(file, "centres", part.all_classes ? 1 : 0, "F32 [C, " + d);
  part.rows = w[0];
  part.columns = w[1];
  const bool whole_centres = part.columns > 0 && part.columns % part.dimension == 0;
  if (!whole_centres && part.columns != part.dimension + 1) {
    refuse(file, "centres",
           "F32 [C, " + d + ", K times the columns for K sub-centres, or one more for a bias");
  }
  part.centres = file.float32("centres", w);
  if (part.has("momentum")) part.momentum = file.float32("momentum", w);
  if (part.has("second")) part.second = file.float32("second", w);
  if (!part.all_classes) part.classes = read_integers(file, "classes", part.rows);
  if (part.has("d_embeddings")) {
    const Shape64& g = matrix_shape(file, "d_embeddings", 1, "F32 [B, " + d);
    part.d_embeddings = file.float32("d_embeddings", Shape64{g[0], part.dimension});
  }
  part.micro_batches = read_micro_batches(part);
  part.active = active_flags(part);
  part.rank = number(file, step_file::kRank, -1).get<std::int64_t>();
  part.world_size = number(file, step_file::kWorldSize, 0).get<std::int64_t>();
  return part;
}

/// Throws if the tensors `name` of two files differ in any bit. (A NaN equals itself.)
void expect_same(const Part& a, const Part& b, const char* name) {
  const auto& one = a.file.at(name);
  const auto& other = b.file.at(name);
  if (one.shape == other.shape && std::ranges::equal(one.bytes, other.bytes)) return;
  throw InputError(b.name() + ": " + name + " are not those of " + a.name() +
                   ": these are not parts of one step");
}

void check_complete(std::span<const Part> parts) {
  const std::int64_t workers = parts.front().world_size;
  for (const Part& part : parts) {
    if (part.world_size != workers) {
      throw InputError(part.name() + ": written by " + std::to_string(part.world_size) +
                       " workers, " + parts.front().name() + " by " + std::to_string(workers) +
                       ": these are not parts of one step; move the older files away");
    }
  }
  for (std::int64_t rank = 0; rank < workers; ++rank) {
    const auto of_rank = [&](const Part& part) { return part.rank == rank; };
    const auto found = std::ranges::count_if(parts, of_rank);
    if (found == 1) continue;
    throw InputError(parts.front().name() + ": is one of " + std::to_string(workers) +
                     " parts of a step, but the part of rank " + std::to_string(rank) + " is " +
                     (found == 0 ? "missing" : "given twice") +
                     "; set --in to the folder that holds all parts");
  }
}

void check_parts(std::span<const Part> parts) {
  for (const Part& part : parts) {
    if (parts.size() > 1 && part.all_classes) {
      throw InputError(part.name() + ": has no tensor \"classes\", so it holds a whole step; " +
                       "set --in to this file alone");
    }
    expect_same(parts.front(), part, "embeddings");
    expect_same(parts.front(), part, "labels");
    if (part.columns != parts.front().columns) {
      throw InputError(part.name() + ": centres has " + std::to_string(part.columns) +
                       " columns, " + parts.front().name() + " has " +
                       std::to_string(parts.front().columns) + ": these are not parts of one step");
    }
    if (part.micro_batches == parts.front().micro_batches) continue;
    throw InputError(part.name() + ": has " + std::to_string(part.micro_batches) +
                     " micro-batches, " + parts.front().name() + " has " +
                     std::to_string(parts.front().micro_batches) +
                     ": these are not parts of one step");
  }
  check_complete(parts);
}

/// Returns the tensor `name` of all parts. Throws if only some parts with rows have it.
RowTable merge_parts(std::span<const Part> parts, std::span<const float> Part::*member,
                     const char* name) {
  RowTable table{.columns = parts.front().columns, .pieces = {}};
  const Part* without = nullptr;
  for (const Part& part : parts) {
    if (part.rows == 0) continue;
    if (!part.has(name)) {
      without = &part;
    } else {
      table.pieces.push_back(part.*member);
    }
  }
  if (without != nullptr && !table.pieces.empty()) {
    throw InputError(without->name() + ": has no tensor " + name + ", but other parts have one");
  }
  return table;
}

/// Returns the gradients of all samples: micro-batch after micro-batch, each in the order of
/// ranks. Returns a table without pieces if a part has no gradients.
RowTable merge_gradients(std::span<const Part> parts) {
  RowTable table{.columns = parts.front().dimension, .pieces = {}};
  const auto micro_batches = static_cast<std::size_t>(parts.front().micro_batches);
  std::int64_t rows = 0;
  bool equal = true;  // in each part all micro-batches have the same number of rows
  for (const Part& part : parts) {
    if (!part.has("d_embeddings")) return table;
    const std::int64_t of_part =
        static_cast<std::int64_t>(part.d_embeddings.size()) / table.columns;
    equal = equal && of_part % parts.front().micro_batches == 0;
    rows += of_part;
  }
  for (std::size_t m = 0; equal && m < micro_batches; ++m) {
    for (const Part& part : parts) {
      const std::size_t size = part.d_embeddings.size() / micro_batches;
      table.pieces.push_back(part.d_embeddings.subspan(m * size, size));
    }
  }
  if (equal && rows == parts.front().samples) return table;
  throw InputError(parts.front().name() + ": d_embeddings of all parts have " +
                   std::to_string(rows) + " rows, expected one for each of the " +
                   std::to_string(parts.front().samples) + " embeddings");
}

/// Row number of each class, by label.
using RowOfClass = std::unordered_map<std::int64_t, std::int64_t>;

RowOfClass merge_classes(std::span<const Part> parts, HeadStepInput& in) {
  RowOfClass rows;
  for (const Part& part : parts) {
    for (const std::int64_t c : part.classes) {
      if (c < 0 || !rows.emplace(c, std::ssize(in.classes)).second) {
        throw InputError(part.name() + ": classes has " + std::to_string(c) +
                         (c < 0 ? ", expected labels from 0"
                                : ", which is also in another place of this or another part; "
                                  "expected each class once"));
      }
      in.classes.push_back(c);
    }
  }
  return rows;
}

/// Returns the rows of each micro-batch, where the rows of all parts are numbered in order. Empty
/// if no part has a tensor `active`.
std::vector<std::vector<std::int64_t>> merge_active(std::span<const Part> parts) {
  const auto says = [](const Part& part) { return part.has("active"); };
  if (std::ranges::none_of(parts, says)) return {};
  const auto silent = std::ranges::find_if_not(parts, says);
  if (silent != parts.end()) {
    throw InputError(silent->name() + ": has no tensor active, but other parts have one");
  }
  std::vector<std::vector<std::int64_t>> active(
      static_cast<std::size_t>(parts.front().micro_batches));
  std::int64_t first = 0;
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < part.active.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (part.active[i] == std::byte{0}) continue;
      active[static_cast<std::size_t>(at / part.rows)].push_back(first + at % part.rows);
    }
    first += part.rows;
  }
  return active;
}

/// Returns the row of a class; -1: none.
std::int64_t row_of(std::int64_t c, const HeadStepInput& in, const RowOfClass* rows) {
  if (rows == nullptr) return c >= 0 && c < in.rows ? c : -1;
  const auto found = rows->find(c);
  return found == rows->end() ? -1 : found->second;
}

void check_active(const Part& part, const HeadStepInput& in) {
  const std::size_t labels = in.labels.size() / static_cast<std::size_t>(in.micro_batches);
  for (std::size_t i = 0; i < in.labels.size() && !in.active.empty(); ++i) {
    const std::size_t micro_batch = i / labels;
    if (in.labels[i] < 0) continue;  // the sample has fewer labels
    if (std::ranges::binary_search(in.active[micro_batch], in.labels[i])) continue;
    throw InputError(part.name() + ": label " + std::to_string(part.labels[i]) + " of sample " +
                     std::to_string(i / static_cast<std::size_t>(in.labels_per_image)) +
                     " is not active in its micro-batch " + std::to_string(micro_batch) +
                     ": expected a 1 for its class in the tensor \"active\"");
  }
}

void set_labels(const Part& part, const RowOfClass& rows, HeadStepInput& in) {
  in.labels_per_image = std::ssize(part.labels) / part.samples;
  const auto per_image = static_cast<std::size_t>(in.labels_per_image);
  for (std::size_t i = 0; i < part.labels.size(); ++i) {
    const bool none = part.labels[i] == -1 && i % per_image > 0;  // the sample has fewer labels
    const std::int64_t row =
        none ? -1 : row_of(part.labels[i], in, part.all_classes ? nullptr : &rows);
    if (row < 0 && !none) {
      throw InputError(
          part.name() + ": label " + std::to_string(part.labels[i]) + " of sample " +
          std::to_string(i / per_image) + " has no row in \"centres\": expected one of the " +
          std::to_string(in.rows) +
          (part.all_classes ? " classes, counted from 0" : " classes in the tensor \"classes\""));
    }
    const auto before = std::span(part.labels).subspan(i - i % per_image, i % per_image);
    if (!none &&
        (std::ranges::count(before, part.labels[i]) > 0 || std::ranges::count(before, -1) > 0)) {
      throw InputError(part.name() + ": label " + std::to_string(part.labels[i]) + " of sample " +
                       std::to_string(i / per_image) +
                       " follows the same label or -1: expected different labels, then -1");
    }
    in.labels.push_back(row);
  }
}

void read_metadata(const SafetensorsFile& file, HeadStepInput& in) {
  const std::map<std::string, std::string>& metadata = file.metadata();
  if (const auto job = metadata.find(step_file::kJob); job != metadata.end()) {
    in.job = parsed(file, step_file::kJob, job->second);
    if (!in.job.is_object()) {
      throw InputError(file.path().string() + ": metadata job is not a JSON object");
    }
  }
  if (const auto loss = metadata.find(step_file::kLossState); loss != metadata.end()) {
    try {
      in.loss_state = loss_state_of(parsed(file, step_file::kLossState, loss->second));
    } catch (const nlohmann::json::exception& e) {
      throw InputError(file.path().string() + ": metadata loss_state: " + problem_of(e));
    }
  }
  if (metadata.contains(step_file::kLr)) in.job["lr"] = number(file, step_file::kLr, 0.0);
  in.step = number(file, step_file::kStep, 1).get<std::int64_t>();
  in.update = number(file, step_file::kUpdate, in.step).get<std::int64_t>();
  if (in.step < 1 || in.update < 1) {
    throw InputError(file.path().string() + ": metadata step is " + std::to_string(in.step) +
                     " and update " + std::to_string(in.update) + ": they count from 1");
  }
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? "unknown" : one_line(found->second, kLongestText);
  };
  if (metadata.contains(step_file::kNotFinite)) {
    in.story = "in the job " + text(step_file::kNotFinite) + " was not finite (loss " +
               text(step_file::kLoss) + "); the rows are from " + text(step_file::kRows);
  }
}

}  // namespace

HeadStepInput read_head_step(std::span<const path> paths) {
  std::vector<Part> parts;
  for (const path& file : files_of(paths)) parts.push_back(open_part(file));
  check(!parts.empty(), "read_head_step: no paths");
  std::ranges::sort(parts, {}, [](const Part& part) {
    return std::tuple(part.rank, part.classes.empty() ? -1 : part.classes[0], part.name());
  });
  check_parts(parts);

  const Part& first = parts.front();
  HeadStepInput in{
      .samples = first.samples, .dimension = first.dimension, .micro_batches = first.micro_batches};
  in.embeddings = first.embeddings;
  in.centres = merge_parts(parts, &Part::centres, "centres");
  in.momentum = merge_parts(parts, &Part::momentum, "momentum");
  in.second = merge_parts(parts, &Part::second, "second");
  for (const Part& part : parts) in.rows += part.rows;
  set_labels(first, merge_classes(parts, in), in);
  in.active = merge_active(parts);
  check_active(first, in);
  in.job_d_embeddings = merge_gradients(parts);
  read_metadata(first.file, in);
  for (Part& part : parts) in.files.push_back(std::move(part.file));
  return in;
}

}  // namespace pfc
