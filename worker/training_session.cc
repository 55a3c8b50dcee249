#include "worker/training_session.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/gather_texts.h"
#include "comm/make_comm.h"
#include "comm/rank_zero.h"
#include "common/byte_size.h"
#include "common/config/job_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/machine/cores.h"
#include "common/machine/host_name.h"
#include "common/random_id.h"
#include "common/workers/keepers.h"
#include "data/job_data.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/make_ops.h"
#include "worker/checkpoint/arcface/arcface_checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/fetch_checkpoint.h"
#include "worker/gradients/make_grad_reducer.h"
#include "worker/head/row_copy.h"
#include "worker/initial/init_from.h"
#include "worker/initial/mean_centres.h"
#include "worker/memory/memory_advice.h"
#include "worker/snapshot/snapshot_restore.h"
#include "worker/start/compute_threads.h"
#include "worker/start/host_check.h"
#include "worker/start/job_check.h"
#include "worker/start/output_check.h"
#include "worker/start/precision.h"
#include "worker/start/resume.h"

namespace pfc {
namespace {

// Timeout for an earlier job, or this job's earlier rank 0, that is ending: its agent gives it 30
// s for a checkpoint and then kills it.
constexpr std::chrono::milliseconds kOutputPatience{45'000};

CommOptions peer_options(const SessionOptions& o, TraceRecorder& trace, const char* name) {
  return {.membership = o.membership,
          .name = name,
          .address = o.peer_address,
          .connect_timeout = o.connect_timeout,
          .timeout = o.collective_timeout,
          .abort_switch = o.abort_switch,
          .trace = &trace};
}

// Only a later generation holds snapshots.
KeptMemory kept_memory(const JobConfig& job, const SessionOptions& o) {
  if (!job.replicate || o.snapshots == nullptr || o.store == nullptr ||
      o.membership.generation == 1) {
    return {};
  }
  return kept_on_this_host(*o.store, o.membership, host_of(o), o.snapshots->bytes(),
                           o.connect_timeout);
}

TrainedSoFar untrained(const JobConfig& job, const SessionOptions& o) {
  if (o.planned_workers == 0) return {};
  return {.planned = {o.planned_workers, job.batch_size, job.gradient_acc}};
}

/// Returns the decrease of free GPU memory since `free_before`.
std::size_t taken_since(std::size_t free_before, const Ops& ops) {
  const std::size_t free = ops.memory().free;
  return free_before > free ? free_before - free : 0;
}

void tell(const SessionOptions& options, const char* what) {
  if (options.doing) options.doing(what);
}

}  // namespace

std::string host_of(const SessionOptions& options) {
  return options.host.empty() ? host_name() : options.host;
}

TrainingSession::TrainingSession(const JobConfig& config, const SessionOptions& options)
    : job(config), membership(options.membership) {
  const std::vector<std::filesystem::path> staged = stage_job_data(job, options.doing);
  // Measured after the data are staged, possibly in memory, and before the workers connect, so no
  // worker of this host has allocated anything yet.
  const MemoryThere there =
      memory_of_this_host(membership.local_world_size, kept_memory(config, options));
  open_data(staged, options.doing);
  decide_precision(options);
  ops = make_ops({.choice = job.device,
                  .index = membership.local_rank,
                  .precision = job.precision,
                  .tf32 = job.tf32,
                  .cuda_graphs = job.cuda_graphs});
  host_bytes = there.bytes;
  memory = expect_to_fit(planned(), ops->on_host() ? there : memory_of_gpu(*ops));
  check_job(planned());
  warn();
  check_evaluation_sets(options.doing);
  tell(options, "reserving memory");
  ops->reserve(reserved_bytes(memory));
  plan = plan_steps(job, membership.world_size, job.num_image, untrained(job, options));
  tell(options, "connecting to the other workers");
  connect(options);
  compare_hosts_of_job(options);
  take_output(options);
  link_output(options);
  agree_on_checkpoints();
  decide_threads(options);
  tell(options, "making the network");
  make_model();
  tell(options, "loading weights");
  load_weights(options.snapshots, options.doing);
  expect_no_older_state(options);
  lr = std::make_unique<LrScheduler>(job.lr_schedule, job.lr * lr_factor(job, plan), plan);
  make_snapshots(options.snapshots);
  dump = std::make_unique<StepDump>(*ops, host_comm(), *head, job.output, job_json);
  sampler = {job.tensorboard ? job.histograms_every_steps : 0, membership.rank == 0};
  // Last: its thread waits for other workers, and an earlier exception would not end that wait.
  make_inputs(options.stop_requested);
}

// Called before anything depends on the precision, and before the workers connect.
void TrainingSession::decide_precision(const SessionOptions& options) {
  if (job.precision == Precision::kAuto) {
    const WorkerPrecisions mine{.host = host_of(options),
                                .all = precisions_of(job.device, membership.local_rank)};
    const ChosenPrecision chosen =
        agree_on_precision(options.store, membership, mine, options.connect_timeout);
    job.precision = chosen.precision;
    if (membership.rank == 0) spdlog::info("{}", chosen.message);
  }
  job_json = to_json(job);
}

void TrainingSession::connect(const SessionOptions& options) {
  const auto guard = [&](Comm& comm) {
    if (options.abort_switch != nullptr) abort_guards.emplace_back(*options.abort_switch, comm);
  };
  const std::size_t free_before = ops->memory().free;
  DeviceComms comms = make_device_comms(*ops, peer_options(options, trace, ""), options.store);
  step_comm = std::move(comms.step);
  guard(*step_comm);
  gradient_comm = std::move(comms.gradients);
  guard(*gradient_comm);
  input_comm = make_host_comm(peer_options(options, trace, "inputs"), options.store);
  guard(*input_comm);
  if (job.replicate && options.snapshots != nullptr) {
    snapshot_comm = make_host_comm(peer_options(options, trace, "snapshots"), options.store);
    guard(*snapshot_comm);
  }
  if (ops->on_host()) return;
  gpu_host_comm = make_host_comm(peer_options(options, trace, "host"), options.store);
  guard(*gpu_host_comm);
  nccl_bytes = taken_since(free_before, *ops);
}

// NCCL allocates buffers when a collective of some kind and size is first used. This function runs
// the collectives of a step on zeros, so a lack of memory is detected before training.
void TrainingSession::measure_nccl() {
  const std::size_t free_before = ops->memory().free;
  const StepShapes shapes(job, membership.world_size);
  const Tensor all(all_embeddings->f32(),
                   {shapes.all_embeddings[0] / job.gradient_acc, shapes.all_embeddings[1]});
  const Tensor own(d_embeddings->f32(),
                   {shapes.d_embeddings[0] / job.gradient_acc, shapes.d_embeddings[1]});
  step_comm->all_gather(own, all);
  step_comm->reduce_scatter_sum(all, own);
  if (job.sync_bn) step_comm->all_reduce_sum(own);
  for (const GradBucket& bucket : make_grad_buckets(backbone->gradients(), {})) {
    gradient_comm->all_reduce_sum(
        {backbone->gradients().f32() + bucket.offset, Shape{bucket.count}});
  }
  step_comm->barrier();
  gradient_comm->barrier();
  set_nccl_bytes(memory, nccl_bytes + taken_since(free_before, *ops));
}

// Called before anything is read or written there.
void TrainingSession::take_output(const SessionOptions& options) {
  job_id = from_rank_zero(*input_comm, options.job_id.empty() ? random_id() : options.job_id);
  on_rank_zero(*input_comm, [&] {
    // The other workers wait in a collective meanwhile, so stay below its timeout.
    const auto patience = std::min(kOutputPatience, options.collective_timeout / 2);
    output_lock = std::make_unique<OutputLock>(job.output, job_id, patience);
    check_output(job);
  });
}

// Names a host whose data differ before anything is trained.
void TrainingSession::compare_hosts_of_job(const SessionOptions& options) {
  if (membership.local_world_size == membership.world_size) return;  // one host
  tell(options, "comparing the data of all hosts");
  hosts = gather_texts(*input_comm, host_of(options));
  const auto warnings = compare_hosts(*input_comm, hosts, facts_of_host(*dataset, evaluation_sets));
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
}

void TrainingSession::link_output(const SessionOptions& options) {
  if (hosts.empty()) return;
  tell(options, "looking whether all hosts share the output folder");
  output_links.host = hosts.front();
  output_links.sees = who_sees(*input_comm, job.output);
  if (output_links.shared()) return;
  tell(options, "connecting to the host that has the output folder");
  connect_links(output_links, membership.rank, hosts, [&](Rank worker) {
    CommOptions link = peer_options(options, trace, "");
    link.name = "output/" + std::to_string(worker);
    link.membership = {
        .rank = membership.rank == 0 ? 0 : 1, .world_size = 2, .generation = membership.generation};
    return make_host_comm(link, options.store);
  });
  if (options.abort_switch != nullptr) {
    for (Comm* link : output_links.comms()) abort_guards.emplace_back(*options.abort_switch, *link);
  }
  if (membership.rank == 0) spdlog::info("{}", not_shared_message(output_links, hosts, job.output));
}

void TrainingSession::open_data(std::vector<std::filesystem::path> staged, const Doing& doing) {
  if (doing) doing("opening " + text_of(job.rec));
  JobConfig opened = job;
  opened.rec = std::move(staged);
  dataset = open_job_data(opened, doing);
  complete_job(job, dataset->info());
  if (membership.rank == 0) {
    for (FileBrief& brief : dataset->briefs()) data.push_back(std::move(brief.holds));
  }
  evaluation_sets = open_evaluation_sets(job.val_targets, job.rec, dataset->info().height, doing);
}

/// Warns once for all workers: they have the same data.
void TrainingSession::warn() const {
  if (membership.rank != 0) return;
  for (const std::string& warning : dataset->info().warnings) spdlog::warn("{}", warning);
  if (job.read == ReadKind::kSequential) {
    if (const auto warning = sequential_warning(*dataset)) spdlog::warn("{}", *warning);
  }
  for (const std::string& warning : job_warnings(planned())) spdlog::warn("{}", warning);
}

/// Each worker checks the images that it will embed.
void TrainingSession::check_evaluation_sets(const Doing& doing) const {
  const EmbedOptions size{.height = dataset->info().height, .width = dataset->info().width};
  const auto mine = [&](const auto& images) {
    return shard_of(std::ssize(images), membership.rank, membership.world_size);
  };
  for (const VerificationSet& set : evaluation_sets.verification) {
    check_verification_set(set, mine(set.images), size, doing);
  }
  for (const RetrievalSet& set : evaluation_sets.retrieval) {
    check_retrieval_set(set, mine(set.labels), size, doing);
  }
}

PlannedJob TrainingSession::planned() const {
  PlannedJob planned{.job = job,
                     .world_size = membership.world_size,
                     .threads = threads_of_worker(1),
                     .data = planned_data(*dataset, evaluation_sets),
                     .gpu = !ops->on_host(),
                     .host_bytes = host_bytes};
  if (!threads.empty() && !planned.gpu) {
    planned.threads = threads[static_cast<std::size_t>(membership.rank)];
  }
  if (planned.gpu) {
    const DeviceInfo gpu = cuda_devices().at(static_cast<std::size_t>(membership.local_rank));
    planned.gpu_sizes = gpu.sizes;
  }
  return planned;
}

// If one worker has to write checkpoints in place, all do. Its peers would otherwise wait for it
// in a collective, which has a timeout.
void TrainingSession::agree_on_checkpoints() {
  std::uint8_t mine = memory.checkpoints_in_place ? 1 : 0;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(membership.world_size));
  input_comm->all_gather(Tensor(&mine, DType::kUInt8, {1}),
                         Tensor(all.data(), DType::kUInt8, {membership.world_size}));
  memory.checkpoints_in_place = std::ranges::count(all, 1) > 0;
}

// Called before the model is created, because its plans divide the work among the threads.
void TrainingSession::decide_threads(const SessionOptions& options) {
  WorkerThreads mine = threads_of_saved_state(job, job_id, membership.rank, options.snapshots);
  mine.host = host_of(options);
  mine.share = ops->on_host() ? threads_of_worker(1) : 0;
  mine.is_chosen = threads_are_chosen();
  ChosenThreads chosen = agree_on_threads(*input_comm, mine);
  if (membership.rank == 0 && !chosen.message.empty()) spdlog::warn("{}", chosen.message);
  threads = std::move(chosen.of_rank);
  ops->use_threads(threads[static_cast<std::size_t>(membership.rank)]);
}

void TrainingSession::make_model() {
  BackboneOptions options = backbone_options(job, dataset->info().height, dataset->info().width);
  options.sync_bn = job.sync_bn ? step_comm.get() : nullptr;
  options.rank = membership.rank;
  backbone = make_backbone(*ops, options);
  statistics = std::make_unique<StatisticsBackup>(*ops, *backbone, job.gradient_acc > 1);
  head = make_head(*ops, *step_comm, head_options(job));
  optimizer = std::make_unique<Optimizer>(
      *ops,
      OptimizerOptions{.kind = job.optimizer, .momentum = job.momentum, .clip_norm = job.clip_norm},
      backbone->weights.count, parameter_groups(job, backbone->weights));
  if (ops->activation_type() == DType::kFloat16) loss_scale = LossScale::dynamic();
  reducer = make_grad_reducer(*ops, *gradient_comm, backbone->gradients());

  if (!evaluation_sets.empty() || job.init_centres == InitialCentres::kMean) {
    evaluated_images = OwnedTensor(*ops, batch().shape, DType::kUInt8);
  }
  const StepShapes shapes(job, membership.world_size);
  all_embeddings = OwnedTensor(*ops, shapes.all_embeddings);
  d_embeddings = OwnedTensor(*ops, shapes.d_embeddings);
  if (!ops->on_host()) measure_nccl();
}

void TrainingSession::go_on_after(const TrainedSoFar& trained) {
  plan = plan_steps(job, membership.world_size, job.num_image, trained);
}

// REQUIRES: go_on_after() was called.
std::string TrainingSession::other_images(const OrderedJob& before) const {
  const std::string order = other_order(before, ordered_job(job_json, plan.batch.images()));
  return repeated_images_message(order, plan) + resized_message(job, plan);
}

// Loads a snapshot from memory. If it cannot, start_message gives the reason.
bool TrainingSession::load_from_memory(SnapshotStore* store, std::int64_t images_on_disk) {
  if (!snapshot_comm) return false;
  const SnapshotChoices choices = look_for_snapshots(*store, job.num_classes, *snapshot_comm);
  const auto& chosen = choices.newest_whole;
  if (!chosen || chosen->id.trained.images < images_on_disk) {
    start_message = why_not_from_memory(choices, job.num_classes, images_on_disk);
    if (!start_message.empty()) start_message += "; ";
    return false;
  }
  const std::uint64_t moved = load_snapshot(*chosen, *store, state(), *snapshot_comm);
  go_on_after(chosen->id.trained);
  start_message =
      "went on from the copies in memory of " + where_from(*chosen) + "; moved " +
      byte_size_text(moved) + ": next is step " + std::to_string(plan.first_step()) +
      other_images({.job = job_json, .micro_batch = chosen->id.world_size * job.batch_size});
  return true;
}

// Converts a checkpoint of arcface_torch, if the output folder holds one and none of pfc.
std::string TrainingSession::convert_foreign_checkpoint() {
  std::string message;
  on_rank_zero(*input_comm, [&] {
    if (!job.resume || newest_checkpoint(job.output)) return;
    const auto theirs = find_arcface_checkpoint(job.output);
    if (!theirs) return;
    const BackboneParameters parameters{.weights = backbone->weights.parameters,
                                        .state = backbone->state.parameters};
    const auto folder = convert_arcface_checkpoint(*theirs, parameters,
                                                   {.network = job.network,
                                                    .embedding_size = job.embedding_size,
                                                    .classes = job.num_classes,
                                                    .optimizer = job.optimizer},
                                                   {.job_id = job_id,
                                                    .trained = {.planned = plan.batch},
                                                    .classes = job.num_classes,
                                                    .embedding_size = job.embedding_size,
                                                    .job = job_json},
                                                   job.num_image, job.output);
    message = fmt::format("wrote {} from arcface_torch's files of {}; ", folder.string(),
                          counted(static_cast<long long>(theirs->centres.size()), "GPU"));
  });
  return message;
}

/// Starts a job that has neither checkpoint nor snapshot.
void TrainingSession::start_untrained(const Doing& doing) {
  InitialWeights initial{.message = "weights from seed " + std::to_string(job.seed), .centres = {}};
  if (!job.init_from.empty()) {
    initial = init_from(
        {.file = job.init_from, .names = job.init_from_names, .dataset = dataset.get()}, state());
  }
  start_message = initial.message;
  if (job.init_centres == InitialCentres::kRandom) return;
  start_message += "; " + set_mean_centres({.ops = *ops,
                                            .head = *head,
                                            .comm = host_comm(),
                                            .dataset = *dataset,
                                            .embed = embed_with(*ops, *backbone, evaluated_images),
                                            .options = mean_centres_options(
                                                job, dataset->info().height, dataset->info().width),
                                            .keep = initial.centres,
                                            .doing = doing});
}

void TrainingSession::load_weights(SnapshotStore* store, const Doing& doing) {
  std::string fetched = convert_foreign_checkpoint();
  if (!output_links.shared()) {
    const std::string copied = fetch_newest_checkpoint(*input_comm, checkpoint_options());
    if (!copied.empty()) fetched += copied + "; ";
  }
  // A later generation resumes from a checkpoint of an earlier one, but not from another job's.
  // The first generation may have missed that one, or it is on another host.
  const auto newest = newest_checkpoint_of_all(*input_comm, job, job_id, data);
  if (load_from_memory(store, newest ? newest->images : 0)) return;
  const std::string why_not = fetched + start_message;
  if (newest) {
    const CheckpointInfo info =
        output_links.shared()
            ? load_checkpoint(newest->folder, state())
            : load_checkpoint_of_rank_zero(newest->folder, state(),
                                           {*step_comm, *input_comm, output_links});
    go_on_after(info.trained);
    loaded_from_disk = true;
    start_message = why_not + resumed_message(info, plan) + other_images(newest->ordered);
    return;
  }
  start_untrained(doing);
  if (job.resume || membership.generation > 1)
    start_message = why_not + "resume: no checkpoint in " + job.output.string() +
                    " yet, training begins at step 1; " + start_message +
                    resized_message(job, plan);
}

// A checkpoint may be invisible for a moment, on NFS or on a host that returns. So this is no
// InputError, and the coordinator tries again while restarts are left.
void TrainingSession::expect_no_older_state(const SessionOptions& options) const {
  if (plan.start.step >= options.checkpoint_step) return;
  const std::string host =
      options.checkpoint_host.empty() ? "" : " on host " + options.checkpoint_host;
  const std::string found =
      plan.start.step == 0 ? "no state was found"
                           : "the newest state found is step " + std::to_string(plan.start.step);
  throw std::runtime_error(
      "output: " + job.output.string() + host + " should have the checkpoint of step " +
      std::to_string(options.checkpoint_step) + ", but " + found + "; restore it, or " +
      "submit the job again with \"resume\": true to continue from what is there");
}

void TrainingSession::make_snapshots(SnapshotStore* store) {
  if (!snapshot_comm) return;
  const auto workers = static_cast<std::size_t>(membership.world_size);
  // A job of one host has no host names.
  const std::vector<std::string> places = hosts.empty() ? std::vector<std::string>(workers) : hosts;
  snapshots = std::make_unique<SnapshotMaker>(*store, *snapshot_comm,
                                              SnapshotOptions{.membership = membership,
                                                              .keepers = keepers_of(places),
                                                              .seconds = job.snapshot_seconds,
                                                              .track = thread_row("snapshots")});
}

void TrainingSession::make_inputs(const std::function<bool()>& stop_requested) {
  writer = make_checkpoint_writer(checkpoint_options());
  checkpoints = std::make_unique<CheckpointSchedule>(
      job, plan,
      [this](std::int64_t step, bool last) {
        const bool in_place = last || memory.checkpoints_in_place;
        writer->begin(state(), plan.after(step), job_json,
                      in_place ? CheckpointMode::kInPlace : CheckpointMode::kCopy);
      },
      *writer, host_comm());
  const BatchPlan batches = plan.batches(membership.rank);
  prefetcher = std::make_unique<Prefetcher>(
      *dataset, PrefetcherOptions{.batch_size = batches.batch_size,
                                  .rank = batches.rank,
                                  .world_size = batches.world_size,
                                  .seed = job.seed,
                                  .shuffle = job.shuffle,
                                  .read = read_options(job),
                                  .augmentation = job.augment,
                                  .first_batch = batches.first_batch,
                                  .start = batches.start,
                                  .last_batch = plan.last_step * job.gradient_acc,
                                  .threads = static_cast<int>(job.num_workers),
                                  .max_damaged = job.max_damaged,
                                  .trace = &trace});
  const auto signals = [this, stop_requested] {
    WorkerSignals mine{.stop = end_early || (stop_requested && stop_requested())};
    checkpoints->fill(mine);
    if (snapshots) snapshots->fill(mine);
    return mine;
  };
  inputs = std::make_unique<StepInputs>(*ops, *prefetcher, *input_comm, *head,
                                        StepInputsOptions{.images = batch().shape,
                                                          .type = batch().dtype,
                                                          .gradient_acc = job.gradient_acc,
                                                          .signals = signals,
                                                          .track = thread_row("inputs")});
}

CheckpointOptions TrainingSession::checkpoint_options() {
  return {.output = job.output,
          .job_id = job_id,
          .lock = output_lock.get(),
          .links = &output_links,
          .membership = membership,
          .keep = job.keep_checkpoints,
          .global_batch = plan.batch.images(),
          .track = thread_row("checkpoints")};
}

TraceTrack TrainingSession::thread_row(const char* name) {
  return trace.track(TraceRow::kThread, name);
}

Tensor TrainingSession::batch() const {
  return batch_of(backbone_options(job, dataset->info().height, dataset->info().width));
}

Communicated TrainingSession::communicated() const {
  Communicated all{{"step", step_comm->counters()},
                   {"gradients", gradient_comm->counters()},
                   {"inputs", input_comm->counters()}};
  if (gpu_host_comm) all["host"] = gpu_host_comm->counters();
  if (snapshot_comm) all["snapshots"] = snapshot_comm->counters();
  for (const Comm* link : output_links.comms()) {
    const CommCounters counters = link->counters();
    all["output"].calls += counters.calls;
    all["output"].bytes += counters.bytes;
    all["output"].sent_bytes += counters.sent_bytes;
  }
  return all;
}

Trainer TrainingSession::trainer() {
  return {.ops = *ops,
          .comm = *step_comm,
          .backbone = *backbone,
          .statistics = *statistics,
          .head = *head,
          .reducer = *reducer,
          .optimizer = *optimizer,
          .loss_scale = loss_scale,
          .lr = *lr,
          .inputs = *inputs,
          .dump = *dump,
          .sampler = sampler,
          .phase = phase,
          .gradient_acc = job.gradient_acc,
          .all_embeddings = all_embeddings,
          .d_embeddings = d_embeddings};
}

StepSample TrainingSession::sample() {
  const std::int64_t n = all_embeddings->shape[0] / job.gradient_acc;
  const Tensor last = row_range(all_embeddings, (job.gradient_acc - 1) * n, n);
  return sampler.take({.ops = *ops, .head = *head, .comm = host_comm(), .embeddings = last});
}

TrainingState TrainingSession::state() {
  return {.ops = *ops,
          .backbone = *backbone,
          .optimizer = *optimizer,
          .head = *head,
          .loss_scale = loss_scale,
          .classes = job.num_classes,
          .network = job.network,
          .threads = threads,
          .data = data};
}

}  // namespace pfc
