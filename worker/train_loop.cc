#include "worker/train_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/safetensors.h"
#include "common/machine/cores.h"
#include "model/files/export_model.h"
#include "model/files/torch_writer.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/step_reporter.h"
#include "worker/trace_taker.h"

namespace pfc {
namespace {

constexpr const char* kModel = "backbone.safetensors";

/// Calls f while the backbone holds the weights that are evaluated and written: with ema_decay, the
/// averages.
void with_model(TrainingSession& s, const std::function<void()>& f) {
  if (!s.trainer->average) return f();
  s.trainer->average->during(f);
}

/// Returns the classification layer as it is now, because the averages of ema_decay do not include
/// it.
ClassLayer class_layer(TrainingSession& s) {
  Head& head = *s.trainer->head;
  return {
      .classes = head.shard(),
      .cosines = !is_plain_softmax(s.job.loss),
      .sub_centres = s.job.sub_centres,
      .positions = head.positions(),
      .read = [&](RowRange classes, std::span<float> rows) { head.read_current(classes, rows); }};
}

void evaluate_model(TrainingSession& s, std::int64_t step, StepReporter& reporter) {
  const TimePoint start = Clock::now();
  // Without sync_bn each worker has the running statistics of its own batches. The written model
  // has those of rank 0, so evaluation uses them too. Training never reads them.
  s.phase("evaluate", [&] { s.comms.step->broadcast(s.trainer->backbone->state.flat(), 0); });
  const EmbedBatch embed = embed_with(*s.local.ops, *s.trainer->backbone, s.evaluated_images);
  const EmbedOptions options{.batch = s.job.batch_size,
                             .height = s.local.dataset->info().height,
                             .width = s.local.dataset->info().width,
                             .embedding_size = s.job.embedding_size,
                             .threads = threads_of_worker(1)};
  const auto evaluate_one = [&](const auto& set) {
    reporter.evaluation(
        step, s.phase("evaluate", [&] { return evaluate(set, s.comms.host(), embed, options); }));
  };
  const auto classify_one = [&](const ClassificationSet& set) {
    EmbedOptions plain = options;
    plain.flip = false;
    reporter.evaluation(step, s.phase("evaluate", [&] {
      return evaluate(set, s.comms.host(), embed, plain, class_layer(s));
    }));
  };
  try {
    std::ranges::for_each(s.local.evaluation_sets.classification, classify_one);
    std::ranges::for_each(s.local.evaluation_sets.verification, evaluate_one);
    std::ranges::for_each(s.local.evaluation_sets.retrieval, evaluate_one);
  } catch (const InputError& error) {
    throw DataFailed(error.what(), true);  // all workers see the same error
  }
  reporter.evaluated(seconds_since(start));
}

void evaluate_all(TrainingSession& s, std::int64_t step, StepReporter& reporter) {
  if (s.local.evaluation_sets.empty()) return;
  with_model(s, [&] { evaluate_model(s, step, reporter); });
}

/// Also writes the model in the job's export formats. A failure is only logged.
void export_model(const TrainingSession& s, std::vector<HostTensor> tensors) {
  const DatasetInfo& data = s.local.dataset->info();
  ModelFile model{.weights = {.state_dict = NamedTensors(), .others = NamedTensors()},
                  .options = backbone_options(s.job, data.height, data.width)};
  model.options.batch = 1;
  model.options.training = false;
  for (HostTensor& t : tensors) {
    model.weights.state_dict.add_owned(t.name, t.dtype, t.shape, std::move(t.bytes));
  }
  for (const std::string& format : s.job.exports) {
    const std::filesystem::path path =
        s.job.output / (format == "onnx" ? "backbone.onnx" : "model.pt");
    try {
      if (format == "onnx") {
        export_onnx(model, path, {});
      } else {
        write_torch(path, model.weights.state_dict);
      }
    } catch (const std::exception& error) {
      spdlog::warn(
          "{} was not exported: {}; try again with pfcctl export {} --model {} --output {}",
          path.string(), error.what(), format, (s.job.output / kModel).string(), path.string());
    }
  }
}

void write_model(TrainingSession& s) {
  std::vector<HostTensor> tensors = export_state_dict(*s.local.ops, *s.trainer->backbone);
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  const DatasetInfo& data = s.local.dataset->info();
  write_safetensors(s.job.output / kModel, entries,
                    metadata_of(backbone_options(s.job, data.height, data.width)));
  if (!s.job.exports.empty()) export_model(s, std::move(tensors));
}

void save_checkpoint(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  reporter.checkpoint(s.phase("checkpoint", [&] { return s.saving.checkpoints->finish(done); }));
}

/// Returns false without a backbone: training then changes only the centres, which are in
/// checkpoints.
bool has_model(const TrainingSession& s) { return s.trainer->backbone->weights.count > 0; }

void save_model(TrainingSession& s) {
  if (s.membership.rank != 0 || !has_model(s)) return;
  s.phase("write_model", [&] { with_model(s, [&] { write_model(s); }); });
}

/// Returns a part of a message: where the state after this step is saved, and how to resume.
/// Returns an empty text if the state is not saved. A worker that cannot see the output folder
/// assumes that steps of this run are saved, because it takes part in publishing their checkpoints.
std::string where_saved(const TrainingSession& s, std::int64_t done) {
  const std::filesystem::path folder = s.job.output / checkpoint_format::folder_name(done);
  std::error_code not_there;
  const bool saved = s.comms.output.to_rank_zero ? done >= s.plan.first_step()
                                                 : std::filesystem::exists(folder, not_there);
  if (!saved) return {};
  return "; the state after step " + std::to_string(done) + " is in " + folder.string() +
         (s.comms.output.shared() ? "" : " on host " + s.comms.output.host) +
         "; set \"resume\": true to continue from it";
}

/// If no step was completed, the state is still the one that was loaded, and is not written. If a
/// worker has failed, it throws its failure, but only after all workers have written a checkpoint.
TrainingEnd stop_training(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  const bool moved = done >= s.plan.first_step();
  try {
    if (moved) save_checkpoint(s, done, reporter);
    if (moved && (!reporter.failure().empty() || !s.job.exports.empty())) save_model(s);
  } catch (const StorageError& error) {
    if (reporter.failure().empty()) throw;
    throw StorageError(reporter.failure() + "; and the state could not be saved: " + error.what());
  }
  reporter.end(done, "stopped");
  reporter.message(moved ? "stopped after step " + std::to_string(done) + ", checkpoint written"
                         : "stopped before step " + std::to_string(s.plan.first_step()) +
                               " was complete; there is nothing to write");
  if (!reporter.failure().empty()) throw StorageError(reporter.failure() + where_saved(s, done));
  return TrainingEnd::kStopped;
}

/// All workers call this at the same point, with the state as it was after step `done`.
TrainingEnd end_without_data(TrainingSession& s, std::int64_t done, StepReporter& reporter,
                             const DataFailed& failed) {
  std::string saved;
  try {
    if (done >= s.plan.first_step()) {
      save_checkpoint(s, done, reporter);
      save_model(s);
      // The first failure that is reported ends the other workers, so the model must be written
      // first.
      s.comms.host().barrier();
      saved = where_saved(s, done);
    }
  } catch (const std::exception& error) {
    if (!failed.mine()) throw;
    throw InputError(std::string(failed.what()) +
                     "; and the state could not be saved: " + error.what());
  }
  reporter.end(done, "failed");
  if (failed.mine()) throw InputError(failed.what() + saved);
  reporter.message(failed.what() + saved);
  return TrainingEnd::kStopped;
}

TrainingEnd complete(TrainingSession& s, std::int64_t done, StepReporter& reporter) {
  const bool trained = s.plan.first_step() <= s.plan.last_step;
  if (trained) {
    // This schedule has no further step, so the checkpoint gets the current centres.
    s.phase("checkpoint", [&] {
      if (s.plan.planned_steps == s.plan.total_steps) s.trainer->head->settle_all();
    });
    save_checkpoint(s, done, reporter);
  }
  save_model(s);
  evaluate_all(s, done, reporter);
  reporter.check_output();
  s.trace.begin_step(done + 1);  // ends the trace of the last step and of the work after it
  reporter.end(done, "completed");
  const std::string model =
      has_model(s) ? (s.job.output / kModel).string()
                   : "the class centres, in " +
                         (s.job.output / checkpoint_format::folder_name(done)).string();
  const std::string nothing = std::string("nothing was left to train; ") +
                              (has_model(s) ? "the model is in " : "the result is ");
  reporter.message((trained ? "training is complete: " : nothing) + model);
  if (!reporter.failure().empty()) throw StorageError(reporter.failure() + where_saved(s, done));
  return TrainingEnd::kCompleted;
}

/// `done`: always the number of the last step whose changes are complete.
TrainingEnd train_from(TrainingSession& s, std::int64_t& done, StepReporter& reporter) {
  while (done < s.plan.last_step) {
    reporter.begin_step();
    s.trace.begin_step(done + 1);
    const TimePoint start = Clock::now();
    const StepStats stats = train_step(*s.trainer, *s.inputs);
    if (stats.complete) {
      done = stats.step;
      reporter.step(stats, seconds_since(start));
      if (s.finds_neighbours_after(done)) {
        // A checkpoint of this step contains them.
        s.phase("neighbours", [&] { s.trainer->head->refresh_neighbours(s.comms.host()); });
      }
    }

    if (done == s.plan.last_step) break;
    if (stats.signals.stop) return stop_training(s, done, reporter);
    const TimePoint checkpoint = Clock::now();
    reporter.checkpoint(s.phase(
        "checkpoint", [&] { return s.saving.checkpoints->after_step(done, stats.signals); }));
    if (s.saving.snapshots) {
      reporter.in_memory(s.phase("snapshot", [&] {
        return s.saving.snapshots->after_step(s.state(), s.plan.after(done), stats.signals);
      }));
    }
    reporter.checkpointed(done, seconds_since(checkpoint));
    if (s.plan.reaches_multiple(done, s.job.verbose)) evaluate_all(s, done, reporter);
  }
  return complete(s, done, reporter);
}

}  // namespace

TrainingEnd train(TrainingSession& s, CoordinatorClient* coordinator) {
  StepReporter reporter(s, coordinator);
  const TraceTaker trace_taker(
      s.trace, coordinator,
      s.local.ops->on_host() ? "cpu" : "cuda:" + std::to_string(s.membership.local_rank));
  reporter.start();
  std::int64_t done = s.plan.start.step;
  try {
    return train_from(s, done, reporter);
  } catch (const DataFailed& failed) {
    return end_without_data(s, done, reporter, failed);
  }
}

}  // namespace pfc
