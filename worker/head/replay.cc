#include "worker/head/replay.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "common/error.h"
#include "common/machine/cores.h"
#include "kernels/make_ops.h"
#include "worker/head/row_copy.h"
#include "worker/head/sampling/class_sampler.h"

namespace pfc {
namespace {

constexpr std::int64_t kRowsPerBlock = 2048;

/// One worker of the step. Used by one thread until the step is done.
class ReplayWorker {
 public:
  ReplayWorker(const HeadStepInput& input, const ReplayOptions& options, const Membership& me,
               KeyValueStore& store)
      : comm_(make_host_comm({.membership = me, .name = "replay"}, &store)),
        ops_(make_ops({.choice = options.job.device,
                       .index = 0,
                       .cpu_threads = threads_of_worker(options.workers)})),
        head_(make_head(*ops_, *comm_, head_options_of(input, options.job))) {
    if (!input.classes.empty()) {  // the rows were sampled at the job's rate
      const double rate = options.job.sample_rate.largest();
      const HeadSettings settings{
          .margin = options.job.margin,
          .drawn_logit = options.job.sample_correction ? drawn_logit(rate) : 0};
      head_->follow([settings](std::int64_t) { return settings; });
    }
    const Head::State state = head_->state();
    load(input.centres, state.centres);
    if (state.momentum) load(input.momentum, state.momentum);
    if (state.second) load(input.second, state.second);
    *state.loss = input.loss_state;
    head_->state_changed();
  }

  void run(const HeadStepInput& input, const ReplayOptions& options) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    losses_.assign(static_cast<std::size_t>(input.micro_batches), double{nan});
    d_embeddings_.assign(input.embeddings.size(), nan);
    const auto embeddings = ops_->allocate(input.embeddings.size_bytes());
    const Tensor all(embeddings->data(), DType::kFloat32, {input.samples, input.dimension});
    ops_->copy_to_device(all, input.embeddings.data());
    bool finite = true;  // the same on every worker
    for (std::int64_t micro = 0; finite && micro < input.micro_batches; ++micro) {
      finite = run_micro_batch(input, options, all, micro);
    }
    head_->settle_all();
  }

  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] const std::vector<float>& d_embeddings() const { return d_embeddings_; }
  [[nodiscard]] Head::State state() { return head_->state(); }
  [[nodiscard]] Ops& ops() { return *ops_; }

 private:
  /// Returns the number of rows that belong to each head.
  static std::vector<std::int64_t> rows_of_heads(const HeadStepInput& input,
                                                 std::vector<std::int64_t> heads) {
    if (input.classes.empty()) return heads;
    std::int64_t end = 0;     // end of the head, in classes
    std::int64_t before = 0;  // rows of the previous heads
    for (std::int64_t& head : heads) {
      end += head;
      const auto rows = std::ranges::lower_bound(input.classes, end) - input.classes.begin();
      head = rows - before;
      before = rows;
    }
    return heads;
  }
  static HeadOptions head_options_of(const HeadStepInput& input, const JobConfig& job) {
    HeadOptions options = head_options(job);
    options.classes = input.rows;
    options.embedding_size = input.dimension;
    options.gradient_acc = input.micro_batches;
    options.labels_per_image = input.labels_per_image;
    options.centre_file = {};
    if (!input.classes.empty()) {  // these rows were sampled by the job
      options.sample_rate = 1;
      options.sample_unit = 1;
    }
    options.head_classes = rows_of_heads(input, options.head_classes);
    return options;
  }

  /// Returns whether the loss is finite. If it is not, nothing was updated.
  bool run_micro_batch(const HeadStepInput& input, const ReplayOptions& options, const Tensor& all,
                       std::int64_t micro) {
    const std::int64_t samples = input.samples / input.micro_batches;
    const Tensor x = row_range(all, micro * samples, samples);
    const auto count = static_cast<std::size_t>(samples * input.labels_per_image);
    const auto labels =
        std::span(input.labels).subspan(static_cast<std::size_t>(micro) * count, count);
    const ActiveCentres active = active_rows(input, options, labels, micro);
    const Head::Step step{.all_embeddings = x,
                          .all_labels = labels,
                          .active = active,
                          .lr = options.job.lr,
                          .update = options.update,
                          .micro_batch = micro,
                          .gradient_scale = 1.0 / static_cast<double>(options.job.gradient_acc)};
    const HeadResult result = head_->run(step);
    losses_[static_cast<std::size_t>(micro)] = result.loss;
    if (!result.d_embeddings) return false;
    float* const gradients = d_embeddings_.data() + micro * samples * input.dimension;
    ops_->copy_to_host(gradients, result.d_embeddings);
    comm_->all_reduce_sum(Tensor(gradients, x.shape));
    if (!result.moved && micro + 1 == input.micro_batches) head_->move(step);
    return true;
  }

  /// Returns the rows of this worker that take part in a micro-batch.
  [[nodiscard]] ActiveCentres active_rows(const HeadStepInput& input, const ReplayOptions& options,
                                          std::span<const std::int64_t> labels,
                                          std::int64_t micro) const {
    if (input.active.empty()) return head_->sample(labels, options.step);
    const std::vector<std::int64_t>& rows = input.active[static_cast<std::size_t>(micro)];
    const RowRange shard = head_->shard();
    return {.step = options.step,
            .classes = {std::ranges::lower_bound(rows, shard.begin),
                        std::ranges::lower_bound(rows, shard.end)}};
  }

  void load(const RowTable& from, const ScaledRows& to) {
    const RowRange shard = head_->shard();
    from.each_stretch(shard, [&](std::span<const float> values, std::int64_t first) {
      const std::int64_t begin = first - shard.begin;
      const auto count = static_cast<std::int64_t>(values.size()) / from.columns;
      copy_rows_to_device(*ops_, row_range(to, begin, count), values.data());
    });
  }

  std::unique_ptr<Comm> comm_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Head> head_;
  std::vector<double> losses_;       // [M]
  std::vector<float> d_embeddings_;  // [M * N, D], summed over workers
};

using Workers = std::vector<std::unique_ptr<ReplayWorker>>;

/// Runs `body(rank)` on one thread per rank. Rethrows an error that is not a CommError if there
/// is one, because the CommErrors of other ranks follow from it.
void on_threads(int workers, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> causes(static_cast<std::size_t>(workers)), complaints(causes);
  std::vector<std::jthread> threads;  // joined even if one of them cannot be started
  threads.reserve(causes.size());
  for (int rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      try {
        body(rank);
      } catch (const CommError&) {
        complaints[i] = std::current_exception();
      } catch (...) {
        causes[i] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const auto* errors : {&causes, &complaints}) {
    for (const std::exception_ptr& error : *errors) {
      if (error) std::rethrow_exception(error);
    }
  }
}

Workers run_workers(const HeadStepInput& input, const ReplayOptions& options) {
  MemoryStore store;
  Workers workers(static_cast<std::size_t>(options.workers));
  on_threads(options.workers, [&](int rank) {
    // A worker that fails is destroyed here at once, so that its peers see its connections close.
    auto worker = std::make_unique<ReplayWorker>(
        input, options, Membership{.rank = rank, .world_size = options.workers}, store);
    worker->run(input, options);
    workers[static_cast<std::size_t>(rank)] = std::move(worker);
  });
  return workers;
}

SafetensorsEntry entry(const std::string& name, std::vector<std::int64_t> shape,
                       std::span<const std::byte> bytes, const std::string& dtype = "F32") {
  return {.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = bytes, .pieces = {}};
}

/// Returns one table of the heads' state. Adds every written row to `health`.
SafetensorsEntry table_entry(const std::string& name, Workers& workers,
                             ScaledRows Head::State::*member, RowHealth& health) {
  std::int64_t rows = 0;
  for (const auto& worker : workers) rows += (worker->state().*member).shape[0];
  const auto pieces = [&workers, member, &health](const ByteSink& sink) {
    std::vector<float> block(static_cast<std::size_t>(kRowsPerBlock * health.columns()));
    for (const auto& worker : workers) {
      const ScaledRows table = worker->state().*member;
      for (std::int64_t begin = 0; begin < table.shape[0]; begin += kRowsPerBlock) {
        const std::int64_t count = std::min(kRowsPerBlock, table.shape[0] - begin);
        const auto values =
            std::span(block).first(static_cast<std::size_t>(count * health.columns()));
        copy_rows_to_host(worker->ops(), values.data(), row_range(table, begin, count));
        health.add(values);
        sink(std::as_bytes(values));
      }
    }
  };
  return {.name = name,
          .dtype = "F32",
          .shape = {rows, health.columns()},
          .bytes = {},
          .pieces = pieces};
}

}  // namespace

void check_replay(const HeadStepInput& input, const ReplayOptions& options) {
  check(options.workers >= 1 && options.step >= 1 && options.update >= 1,
        "replay: workers, steps and updates count from 1");
  const std::int64_t columns =
      centre_size(options.job.loss, input.dimension, options.job.sub_centres);
  if (input.centres.columns != columns) {
    throw InputError(input.path().string() + ": centres has " +
                     std::to_string(input.centres.columns) + " columns, expected " +
                     std::to_string(columns) +
                     " (sub_centres x embedding_size, + 1 with loss softmax); set loss and "
                     "sub_centres as in the job");
  }
  if (input.classes.empty() && options.job.sample_unit > 1) {
    throw InputError(input.path().string() + ": has no tensor classes, but sample_unit is " +
                     std::to_string(options.job.sample_unit) +
                     ", expected 1, because rows in the order of the labels are not in blocks");
  }
  if (!options.job.head_classes.empty() && !std::ranges::is_sorted(input.classes)) {
    throw InputError(input.path().string() +
                     ": its tensor classes is not in rising order, as head_classes needs, because "
                     "the classes of a head must be stored together");
  }
  if (input.rows >= options.workers) return;
  throw InputError(input.path().string() + ": centres has " + std::to_string(input.rows) +
                   " rows, fewer than the " + std::to_string(options.workers) +
                   " workers that would share them; lower --workers");
}

ReplayResult replay_head_step(const HeadStepInput& input, const ReplayOptions& options,
                              const std::filesystem::path& out) {
  check_replay(input, options);
  Workers workers = run_workers(input, options);

  const std::int64_t d = input.dimension, columns = input.centres.columns;
  ReplayResult result{.losses = workers[0]->losses(),
                      .d_embeddings = RowHealth(d),
                      .centres = RowHealth(columns),
                      .momentum = RowHealth(columns),
                      .second = RowHealth(columns)};
  for (const double loss : result.losses) {
    result.loss += loss / static_cast<double>(result.losses.size());
  }
  const std::vector<float> loss(result.losses.begin(), result.losses.end());
  const std::vector<float>& gradients = workers[0]->d_embeddings();
  result.d_embeddings.add(gradients);
  std::vector<SafetensorsEntry> entries{
      entry("loss", {input.micro_batches}, std::as_bytes(std::span(loss))),
      entry("d_embeddings", {input.samples, d}, std::as_bytes(std::span(gradients))),
      table_entry("centres", workers, &Head::State::centres, result.centres)};
  if (workers[0]->state().momentum) {
    entries.push_back(table_entry("momentum", workers, &Head::State::momentum, result.momentum));
  }
  if (workers[0]->state().second) {
    entries.push_back(table_entry("second", workers, &Head::State::second, result.second));
  }
  if (!input.classes.empty()) {
    entries.push_back(
        entry("classes", {input.rows}, std::as_bytes(std::span(input.classes)), "I64"));
  }
  write_safetensors(out, entries);
  return result;
}

}  // namespace pfc
