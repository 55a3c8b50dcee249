#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "worker/head/row_copy.h"
#include "worker/head/step_file.h"

namespace pfc {
namespace {

constexpr std::int64_t kRowsPerWrite = 2048;  // 4 MiB at D = 512

/// Reads the rows of these classes, at most kRowsPerWrite. Adjacent rows are copied together.
std::span<const float> read_rows(Ops& ops, Head& head, const ScaledRows& table,
                                 std::span<const std::int64_t> classes, std::span<float> block) {
  const auto d = static_cast<std::size_t>(table.shape[1]);
  std::size_t done = 0;
  while (done < classes.size()) {
    const auto most = static_cast<std::size_t>(rows_at_once(table.shape[1]));
    std::size_t end = done + 1;
    while (end < classes.size() && end - done < most && classes[end] == classes[end - 1] + 1) ++end;
    const auto pinned = head.pin({classes[done], classes[end - 1] + 1}, PageUse::kRead, table);
    const ScaledRows rows =
        row_range(table, classes[done] - head.shard().begin, static_cast<std::int64_t>(end - done));
    copy_rows_to_host(ops, block.data() + done * d, rows);
    done = end;
  }
  return block.first(done * d);
}

SafetensorsEntry active_rows(const std::string& name, Ops& ops, Head& head, const ScaledRows& table,
                             std::span<const std::int64_t> classes) {
  const std::int64_t d = table.shape[1];
  const auto pieces = [&ops, &head, table, classes, d](const ByteSink& sink) {
    std::vector<float> block(static_cast<std::size_t>(kRowsPerWrite * d));
    for (std::size_t begin = 0; begin < classes.size(); begin += kRowsPerWrite) {
      const auto some =
          classes.subspan(begin, std::min<std::size_t>(kRowsPerWrite, classes.size() - begin));
      sink(std::as_bytes(read_rows(ops, head, table, some, block)));
    }
  };
  return {.name = name,
          .dtype = "F32",
          .shape = {static_cast<std::int64_t>(classes.size()), d},
          .bytes = {},
          .pieces = pieces};
}

std::vector<float> on_host(Ops& ops, const Tensor& tensor) {
  if (!tensor) return {};
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  ops.copy_to_host(values.data(), tensor);
  return values;
}

SafetensorsEntry matrix(const std::string& name, const std::vector<float>& values,
                        const Tensor& tensor) {
  return {.name = name,
          .dtype = "F32",
          .shape = {tensor.shape[0], tensor.shape[1]},
          .bytes = std::as_bytes(std::span(values)),
          .pieces = {}};
}

std::vector<std::int64_t> labels_at(const ClassPositions& positions,
                                    std::span<const std::int64_t> at) {
  std::vector<std::int64_t> labels(at.size());
  std::ranges::transform(at, labels.begin(), [&](auto p) { return positions.label_at(p); });
  return labels;
}

/// Returns the labels [samples] or [samples, labels of a sample].
SafetensorsEntry label_entry(std::span<const std::int64_t> labels, std::int64_t samples) {
  std::vector<std::int64_t> shape{samples};
  if (std::ssize(labels) > samples) shape.push_back(std::ssize(labels) / samples);
  return {.name = "labels",
          .dtype = "I64",
          .shape = std::move(shape),
          .bytes = std::as_bytes(labels),
          .pieces = {}};
}

SafetensorsEntry integer_entry(const std::string& name, std::span<const std::int64_t> values) {
  return {.name = name,
          .dtype = "I64",
          .shape = {static_cast<std::int64_t>(values.size())},
          .bytes = std::as_bytes(values),
          .pieces = {}};
}

/// The classes of this worker that take part in a step, and in which of its micro-batches.
struct ActiveClasses {
  ActiveClasses(const Head& head, const GivenToHead& given) {
    const auto micro_batches = static_cast<std::size_t>(given.micro_batches);
    const std::size_t labels = given.labels.size() / micro_batches;
    std::vector<std::vector<std::int64_t>> each;
    for (std::size_t m = 0; m < micro_batches; ++m) {
      each.push_back(head.sample(given.labels.subspan(m * labels, labels), given.step).classes);
      std::vector<std::int64_t> both;
      std::ranges::set_union(classes, each.back(), std::back_inserter(both));
      classes = std::move(both);
    }
    for (const std::vector<std::int64_t>& some : each) {
      for (const std::int64_t c : classes) {
        taking_part.push_back(std::ranges::binary_search(some, c) ? 1 : 0);
      }
    }
  }
  std::vector<std::int64_t> classes;      // [R] for R classes, sorted
  std::vector<std::uint8_t> taking_part;  // [M, R] for M micro-batches: 1 or 0
};

/// Returns the shortest text that parses to exactly x, or a word for NaN and infinity.
std::string number_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return nlohmann::json(x).dump();
}

/// Returns a copy of the job that uses these settings in every step.
nlohmann::json with_settings(nlohmann::json job, const HeadSettings& settings) {
  const Margin& m = settings.margin;
  job["margin_list"] = {m.m1, m.m2, m.m3};
  job["margin_update"] = nullptr;
  job["sample_rate"] = settings.sample_rate;
  return job;
}

std::map<std::string, std::string> metadata_of(const HeadStepPart& part,
                                               const HeadSettings& settings,
                                               const LossState& loss) {
  return {{step_file::kJob, with_settings(part.job, settings).dump()},
          {step_file::kStep, std::to_string(part.given.step)},
          {step_file::kUpdate, std::to_string(part.given.update)},
          {step_file::kMicroBatches, std::to_string(part.given.micro_batches)},
          {step_file::kLossState, to_json(loss).dump()},
          {step_file::kLr, number_text(part.given.lr)},
          {step_file::kRank, std::to_string(part.rank)},
          {step_file::kWorldSize, std::to_string(part.world_size)},
          {step_file::kNotFinite, part.not_finite},
          {step_file::kLoss, number_text(part.loss)},
          {step_file::kRows, part.rows_moved ? step_file::kAfter : step_file::kBefore}};
}

}  // namespace

void write_head_step_part(const std::filesystem::path& path, Ops& ops, Head& head,
                          const HeadStepPart& part) {
  const ActiveClasses active(head, part.given);
  const std::span<const std::int64_t> classes = active.classes;
  head.settle(classes);
  const Head::State state = head.state();
  const std::vector<float> embeddings = on_host(ops, part.given.embeddings);
  const std::vector<float> gradients = on_host(ops, part.d_embeddings);
  const std::vector<std::int64_t> labels = labels_at(head.positions(), part.given.labels);
  const std::vector<std::int64_t> labels_of_rows = labels_at(head.positions(), classes);

  std::vector<SafetensorsEntry> entries{matrix("embeddings", embeddings, part.given.embeddings),
                                        label_entry(labels, part.given.embeddings.shape[0]),
                                        integer_entry("classes", labels_of_rows),
                                        active_rows("centres", ops, head, state.centres, classes)};
  if (state.momentum) {
    entries.push_back(active_rows("momentum", ops, head, state.momentum, classes));
  }
  if (state.second) {
    entries.push_back(active_rows("second", ops, head, state.second, classes));
  }
  if (part.given.micro_batches > 1) {
    entries.push_back(
        {.name = "active",
         .dtype = "U8",
         .shape = {part.given.micro_batches, static_cast<std::int64_t>(classes.size())},
         .bytes = std::as_bytes(std::span(active.taking_part)),
         .pieces = {}});
  }
  if (part.d_embeddings) entries.push_back(matrix("d_embeddings", gradients, part.d_embeddings));
  write_safetensors(
      path, entries,
      metadata_of(part, head.settings(part.given.step), head.loss_before(part.given.step)));
}

}  // namespace pfc
