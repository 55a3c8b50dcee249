#include "tests/worker/head/head_job.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"
#include "tests/support/staged_comm.h"
#include "tests/support/thread_comm.h"
#include "worker/head/row_copy.h"

namespace pfc::testing {
namespace {

// One rank's part of the job. Leaves the other ranks' values in `outcome` unchanged.
class RankRun {
 public:
  RankRun(const HeadJob& job, Comm& comm, int threads)
      : job_(job),
        ops_(job.device.make(threads)),
        comm_(*ops_, comm),
        head_(make_head(*ops_, comm_, job.options)) {
    if (!job.settings.empty()) {
      head_->follow([&job](std::int64_t update) { return job.settings_of(update); });
    }
    *head_->state().loss = job.loss_state;
    if (job.options.hard_neighbours > 0) *head_->state().neighbours = job.neighbours;
    if (!job.centres.empty()) {
      each_piece(head_->state().centres, PageUse::kChange,
                 [&](RowRange rows, const ScaledRows& centres) {
                   copy_rows_to_device(*ops_, centres,
                                       job.centres.data() + rows.begin * job.options.centre_size());
                 });
      head_->state_changed();
    }
    if (const Tensor teacher = head_->teacher()) {
      copy_rows_to_device(*ops_, teacher,
                          job.teacher_centres.data() + head_->shard().begin * teacher.shape[1]);
    }
  }

  void run(std::mutex& mutex, HeadOutcome<float>& outcome) {
    for (std::size_t i = 0; i < job_.micro_batches.size(); ++i) {
      if (job_.resumes) head_->state_changed();
      const HeadResult result = run_micro_batch(static_cast<std::int64_t>(i));
      const std::lock_guard lock(mutex);
      if (comm_.rank() == 0) {
        outcome.losses[i] = result.loss;
        outcome.logits_losses[i] = result.logits_loss;
      }
      if (!result.d_embeddings) continue;  // the loss is not finite
      std::vector<float> gradient(outcome.d_embeddings[i].size());
      ops_->copy_to_host(gradient.data(), result.d_embeddings);
      std::ranges::transform(gradient, outcome.d_embeddings[i], outcome.d_embeddings[i].begin(),
                             std::plus<>());
    }
    head_->settle_all();
    const Head::State state = head_->state();
    copy_rows(state.centres, outcome.centres);
    if (state.momentum) copy_rows(state.momentum, outcome.momentum);
    if (state.second) copy_rows(state.second, outcome.second);
    const std::lock_guard lock(mutex);
    outcome.loss_states.push_back(*state.loss);
  }

 private:
  HeadResult run_micro_batch(std::int64_t i) {
    const MicroBatch& batch = job_.micro_batches[static_cast<std::size_t>(i)];
    const std::int64_t acc = job_.options.gradient_acc;
    const std::int64_t update = i / acc + 1;
    const ActiveCentres active = next_active(i);
    const std::int64_t n = std::ssize(batch.labels) / job_.options.labels_per_image;
    const auto memory = ops_->allocate(batch.embeddings.size() * sizeof(float));
    const Tensor embeddings(memory->data(), DType::kFloat32, {n, job_.options.embedding_size});
    ops_->copy_to_device(embeddings, batch.embeddings.data());
    OwnedTensor teacher;
    if (!batch.teacher.empty()) {
      teacher = OwnedTensor(*ops_, {n, job_.options.distillation.embedding_size});
      ops_->copy_to_device(teacher, batch.teacher.data());
    }
    const Head::Step step{.all_embeddings = embeddings,
                          .all_labels = batch.labels,
                          .active = active,
                          .lr = job_.lr_of(update),
                          .update = update,
                          .micro_batch = i % acc,
                          .gradient_scale = 1.0 / static_cast<double>(acc),
                          .teacher_embeddings = teacher};
    const HeadResult result = head_->run(step);
    const bool last = step.micro_batch + 1 == acc;
    if (last && result.d_embeddings && !result.moved && !job_.left_out(update)) head_->move(step);
    return result;
  }

  /// Returns the active classes of a micro-batch, and begins to read those of later ones.
  ActiveCentres next_active(std::int64_t i) {
    const std::int64_t end = std::min(i + 1 + job_.reads_ahead, std::ssize(job_.micro_batches));
    for (std::int64_t next = i + std::ssize(ahead_); next < end; ++next) {
      ahead_.push_back(head_->sample(job_.micro_batches[static_cast<std::size_t>(next)].labels,
                                     next / job_.options.gradient_acc + 1));
      if (job_.reads_ahead > 0) head_->read_ahead(ahead_.back());
    }
    ActiveCentres active = std::move(ahead_.front());
    ahead_.pop_front();
    return active;
  }

  /// Calls f(classes, their rows of the table) for each part of the shard.
  template <typename F>
  void each_piece(const ScaledRows& table, PageUse use, const F& f) {
    const RowRange shard = head_->shard();
    const std::int64_t most = rows_at_once(table.shape[1]);
    for (std::int64_t begin = shard.begin; begin < shard.end; begin += most) {
      const RowRange rows{begin, std::min(begin + most, shard.end)};
      const auto pinned = head_->pin(rows, use);
      f(rows, row_range(table, begin - shard.begin, rows.size()));
    }
  }

  void copy_rows(const ScaledRows& from, std::vector<float>& to) {
    each_piece(from, PageUse::kRead, [&](RowRange rows, const ScaledRows& part) {
      copy_rows_to_host(*ops_, to.data() + rows.begin * job_.options.centre_size(), part);
    });
  }

  const HeadJob& job_;
  const std::unique_ptr<Ops> ops_;
  StagedComm comm_;
  std::unique_ptr<Head> head_;
  std::deque<ActiveCentres> ahead_;  // of the next micro-batches
};

}  // namespace

TestDevice cpu_head_device() {
  return {"Cpu", [](int threads) {
            return make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = threads});
          }};
}

HeadOutcome<float> run_head(const HeadJob& job, int world_size, int threads) {
  const auto size = static_cast<std::size_t>(job.options.classes * job.options.centre_size());
  HeadOutcome<float> outcome;
  outcome.losses.resize(job.micro_batches.size());
  outcome.logits_losses.resize(job.micro_batches.size());
  for (const MicroBatch& batch : job.micro_batches) {
    outcome.d_embeddings.emplace_back(batch.embeddings.size());
  }
  outcome.centres.resize(size);
  const bool adamw = job.options.optimizer == OptimizerKind::kAdamW;
  if (adamw || job.options.momentum != 0) outcome.momentum.resize(size);
  if (adamw) outcome.second.resize(size);
  std::mutex mutex;
  run_ranks(world_size, [&](Comm& comm) { RankRun(job, comm, threads).run(mutex, outcome); });
  return outcome;
}

std::vector<float> random_matrix(std::int64_t rows, std::int64_t columns, double deviation,
                                 std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
  for (float& x : matrix) x = static_cast<float>(normal(generator));
  return matrix;
}

void add_teacher(HeadJob& job, const LogitDistillation& distillation) {
  const std::int64_t d = distillation.embedding_size;
  job.options.distillation = distillation;
  job.teacher_centres = random_matrix(job.options.classes, d, 1, 91);
  for (auto row = job.teacher_centres.begin(); row != job.teacher_centres.end(); row += d) {
    double squares = 0;
    for (auto x = row; x != row + d; ++x) squares += double{*x} * double{*x};
    std::transform(row, row + d, row,
                   [&](float x) { return static_cast<float>(x / std::sqrt(squares)); });
  }
  std::uint64_t seed = 92;
  for (MicroBatch& batch : job.micro_batches) {
    const std::int64_t n = std::ssize(batch.labels) / job.options.labels_per_image;
    batch.teacher = random_matrix(n, d, 1, seed++);
    for (std::int64_t i = 0; i < n; ++i) {  // a trained teacher is near the sample's class
      const std::int64_t label =
          batch.labels[static_cast<std::size_t>(i * job.options.labels_per_image)];
      for (std::int64_t k = 0; k < d; ++k) {
        batch.teacher[static_cast<std::size_t>(i * d + k)] +=
            5 * job.teacher_centres[static_cast<std::size_t>(label * d + k)];
      }
    }
  }
}

void add_labels(MicroBatch& batch, std::int64_t labels_per_image, std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    const std::int64_t own = 1 + static_cast<std::int64_t>(i) % labels_per_image;
    for (std::int64_t k = 0; k < labels_per_image; ++k) {
      labels.push_back(k < own ? (batch.labels[i] + k * classes / labels_per_image) % classes : -1);
    }
  }
  batch.labels = std::move(labels);
}

MicroBatch random_batch(std::int64_t samples, std::int64_t classes, std::int64_t dimension,
                        std::uint64_t seed) {
  MicroBatch batch{
      random_matrix(samples, dimension, 1 / std::sqrt(static_cast<double>(dimension)), seed), {}};
  std::mt19937_64 generator(seed + 1);
  std::uniform_int_distribution<std::int64_t> label(0, classes - 1);
  for (std::int64_t i = 0; i < samples; ++i) batch.labels.push_back(label(generator));
  return batch;
}

void train_a_little(Ops& ops, Head& head, const HeadOptions& o, std::int64_t samples) {
  const auto memory =
      ops.allocate(static_cast<std::size_t>(samples * o.embedding_size) * sizeof(float));
  const Tensor embeddings(memory->data(), DType::kFloat32, {samples, o.embedding_size});
  for (std::int64_t step = 1; step <= 12; ++step) {
    const MicroBatch batch =
        random_batch(samples, o.classes, o.embedding_size, static_cast<std::uint64_t>(step));
    ops.copy_to_device(embeddings, batch.embeddings.data());
    const ActiveCentres active = head.sample(batch.labels, step);
    head.run({.all_embeddings = embeddings,
              .all_labels = batch.labels,
              .active = active,
              .update = step});
  }
}

}  // namespace pfc::testing
