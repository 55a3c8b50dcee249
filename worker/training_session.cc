#include "worker/training_session.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/gather_texts.h"
#include "comm/rank_zero.h"
#include "common/byte_size.h"
#include "common/config/job_json.h"
#include "common/counted.h"
#include "common/random_id.h"
#include "common/workers/keepers.h"
#include "data/job_data.h"
#include "kernels/make_ops.h"
#include "worker/checkpoint/arcface/arcface_checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/transfer/fetch_checkpoint.h"
#include "worker/head/sample_margins.h"
#include "worker/initial/init_from.h"
#include "worker/initial/mean_centres.h"
#include "worker/schedule/head_schedule.h"
#include "worker/snapshot/snapshot_restore.h"
#include "worker/start/centre_file.h"
#include "worker/start/compute_threads.h"
#include "worker/start/host_check.h"
#include "worker/start/job_check.h"
#include "worker/start/output_check.h"
#include "worker/start/precision.h"

namespace pfc {
namespace {

// The time to wait for an earlier job, or for this job's earlier rank 0, to end. An agent gives its
// workers 30 s for a checkpoint and then kills them.
constexpr std::chrono::milliseconds kOutputPatience{45'000};

// The first generation has no snapshots in memory; only later ones may.
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

/// False if a job has lost workers, because they may return on another host.
bool has_one_host(const Membership& m, const SessionOptions& o) {
  return m.local_world_size == m.world_size &&
         (o.planned_workers == 0 || o.planned_workers == m.world_size);
}

}  // namespace

TrainingSession::TrainingSession(const JobConfig& config, const SessionOptions& options)
    : job(config),
      membership(options.membership),
      local{.job = job, .membership = membership, .doing = options.doing} {
  start_locally(options);
  job_json = to_json(job);
  warn();
  check_evaluation_sets();
  tell_doing(options, "reserving memory");
  local.ops->reserve(reserved_bytes(local.memory));
  plan = plan_steps(job, membership.world_size, job.num_image, untrained(job, options));
  connect(options);
  take_output(options);
  link_output(comms, options, job.output, trace);
  agree_on_checkpoints();
  choose_threads(options);
  tell_doing(options, "building the network");
  make_trainer(options);
  tell_doing(options, "loading weights");
  load_weights(options.snapshots);
  if (local.teacher) start_message += "; teacher: " + job.teacher.string() + ": " + teacher_;
  expect_no_older_state(options, plan.start.step);
  trainer->lr.emplace(job.lr_schedule, job.lr * lr_factor(job, plan), plan);
  trainer->head->follow([this](std::int64_t step) { return head_settings(job, plan, step); });
  make_saving(options.snapshots);
  // This comes last, because its thread waits for other workers, and an exception in an earlier
  // call would not end that wait.
  make_inputs(options.stop_requested);
}

void TrainingSession::start_locally(const SessionOptions& options) {
  local.staged = stage_job_data(job, options.doing);
  // Measured when the data have been staged, which may take memory, and before the workers connect.
  // So no worker of this host has allocated anything yet.
  local.host_memory = memory_of_this_host(membership.local_world_size, kept_memory(job, options));
  choose_precision(options);
  for (const StartStep& step : local.steps()) step.run();
  // The brief is for the log, and for the comparison of hosts. Here an error leaves no other worker
  // waiting in a collective.
  if (local.teacher &&
      (membership.rank == 0 || membership.local_world_size < membership.world_size)) {
    teacher_ = local.brief_of_teacher();
  }
  if (membership.rank != 0) return;
  for (FileBrief& brief : local.dataset->briefs()) contents_.push_back(std::move(brief.holds));
}

// Called before anything depends on the precision, and before the workers connect.
void TrainingSession::choose_precision(const SessionOptions& options) {
  if (job.precision != Precision::kAuto) return;
  tell_doing(options, "waiting for the other workers' precisions");
  const ChosenPrecision chosen = agree_on_precision(
      options.store, membership,
      {.host = host_of(options), .all = precisions_of(job.device, membership.local_rank)},
      options.connect_timeout);
  job.precision = chosen.precision;
  if (membership.rank == 0) spdlog::info("{}", chosen.message);
}

// Connects to the other workers. With several hosts, also compares their data, and names a host
// whose data differ.
void TrainingSession::connect(const SessionOptions& options) {
  tell_doing(options, "connecting to the other workers");
  const bool snapshots = job.replicate && options.snapshots != nullptr;
  comms = connect_workers(*local.ops, options, snapshots, trace);
  if (membership.local_world_size == membership.world_size) return;  // one host
  tell_doing(options, "comparing the data of all hosts");
  comms.hosts = gather_texts(*comms.inputs, host_of(options));
  std::vector<HostFact> facts = facts_of_host(*local.dataset, local.evaluation_sets);
  if (local.teacher) {
    facts.push_back({job.teacher.string(), teacher_,
                     "give every host the same file; if some of them lack bf16, set "
                     "teacher_precision to fp32"});
  }
  const auto warnings = compare_hosts(*comms.inputs, comms.hosts, facts);
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
}

// NCCL allocates buffers when a collective of some kind and size is used for the first time. This
// function runs the collectives of a step on zeros, so a lack of memory is detected before
// training.
void TrainingSession::measure_nccl() {
  const std::size_t free_before = local.ops->memory().free;
  const StepShapes shapes(job, membership.world_size);
  const Tensor all(trainer->all_embeddings->f32(),
                   {shapes.all_embeddings[0] / job.gradient_acc, shapes.all_embeddings[1]});
  const Tensor own(trainer->d_embeddings->f32(),
                   {shapes.d_embeddings[0] / job.gradient_acc, shapes.d_embeddings[1]});
  comms.step->all_gather(own, all);
  comms.step->reduce_scatter_sum(all, own);
  // The head exchanges its statistics by an all-to-all. For this, NCCL connects each worker with
  // all others.
  const auto workers = static_cast<std::int64_t>(membership.world_size);
  const std::int64_t bytes = static_cast<std::int64_t>(all.bytes()) / 2 / workers * workers;
  auto* const second = static_cast<std::byte*>(all.data) + bytes;
  comms.step->all_to_all({all.data, DType::kUInt8, {bytes}}, {second, DType::kUInt8, {bytes}});
  if (job.sync_bn || job.label_smoothing > 0 || job.labels_per_image > 1 ||
      uses_target_cosines(job.loss) || is_uniface(job.loss) || local.teacher) {
    comms.step->all_reduce_sum(own);
  }
  for (const GradBucket& bucket : make_grad_buckets(trainer->backbone->gradients(), {})) {
    comms.gradients->all_reduce_sum(
        {trainer->backbone->gradients().f32() + bucket.offset, Shape{bucket.count}});
  }
  comms.step->barrier();
  comms.gradients->barrier();
  set_nccl_bytes(local.memory, comms.nccl_bytes + taken_since(free_before, *local.ops));
}

// Called before anything in the output folder is read or written.
void TrainingSession::take_output(const SessionOptions& options) {
  job_id_ = from_rank_zero(*comms.inputs, options.job_id.empty() ? random_id() : options.job_id);
  on_rank_zero(*comms.inputs, [&] {
    // The other workers wait in a collective meanwhile, so stay below its timeout.
    const auto patience = std::min(kOutputPatience, options.collective_timeout / 2);
    output_lock = std::make_unique<OutputLock>(job.output, job_id_, patience);
    check_output(job);
  });
}

/// Warns once for all workers, because they have the same data.
void TrainingSession::warn() const {
  if (membership.rank != 0) return;
  for (const std::string& warning : local.dataset->info().warnings) spdlog::warn("{}", warning);
  if (job.read == ReadKind::kSequential) {
    if (const auto warning = sequential_warning(*local.dataset)) spdlog::warn("{}", *warning);
  }
  for (const std::string& warning : job_warnings(local.planned())) spdlog::warn("{}", warning);
  const std::string other_people = local.other_people_of_teacher(contents_);
  if (!other_people.empty()) spdlog::warn("{}", other_people);
  for (const ClassificationSet& set : local.evaluation_sets.classification) {
    spdlog::info(
        "val_rec: {}: classes are found by {}", set.path.string(),
        set.by_name ? "name" : "number, because this set or the training data have no names");
  }
}

/// Each worker checks the images that it will embed.
void TrainingSession::check_evaluation_sets() const {
  const EmbedOptions size{.height = local.dataset->info().height,
                          .width = local.dataset->info().width,
                          .threads = threads_of_worker(1)};
  const auto mine = [&](const auto& images) {
    return shard_of(std::ssize(images), membership.rank, membership.world_size);
  };
  for (const VerificationSet& set : local.evaluation_sets.verification) {
    check_verification_set(set, mine(set.images), size, local.doing);
  }
  for (const RetrievalSet& set : local.evaluation_sets.retrieval) {
    check_retrieval_set(set, mine(set.labels), size, local.doing);
  }
  for (const ClassificationSet& set : local.evaluation_sets.classification) {
    check_classification_set(set, mine(set.labels), size, local.doing);
  }
}

// If one worker has to write checkpoints in place, all workers do. Otherwise the others would wait
// for it in a collective, which has a timeout.
void TrainingSession::agree_on_checkpoints() {
  std::uint8_t mine = local.memory.checkpoints_in_place ? 1 : 0;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(membership.world_size));
  comms.inputs->all_gather(Tensor(&mine, DType::kUInt8, {1}),
                           Tensor(all.data(), DType::kUInt8, {membership.world_size}));
  local.memory.checkpoints_in_place = std::ranges::count(all, 1) > 0;
}

// Called before the model is created, because its plans divide the work among the threads.
void TrainingSession::choose_threads(const SessionOptions& options) {
  WorkerThreads mine = threads_of_saved_state(job, job_id_, membership.rank, options.snapshots);
  mine.host = host_of(options);
  mine.share = local.ops->on_host() ? threads_of_worker(1) : 0;
  mine.is_chosen = threads_are_chosen();
  ChosenThreads chosen = agree_on_threads(*comms.inputs, mine);
  if (membership.rank == 0 && !chosen.message.empty()) spdlog::warn("{}", chosen.message);
  threads_ = std::move(chosen.of_rank);
  const int own = threads_[static_cast<std::size_t>(membership.rank)];
  local.ops->use_threads(own);
  if (local.ops->on_host()) local.threads = own;
}

void TrainingSession::make_trainer(const SessionOptions& session) {
  BackboneOptions options = options_of_backbone();
  options.sync_bn = job.sync_bn ? comms.step.get() : nullptr;
  options.rank = membership.rank;
  std::unique_ptr<Backbone> teacher;
  if (local.teacher) {
    const WithActivations teachers(*local.ops, local.teacher_type);
    teacher = make_backbone(*local.ops, *local.teacher, job.batch_size);
    // Frees the file's memory before the activations are allocated.
    local.teacher->weights = WeightsFile{.state_dict = NamedTensors(), .others = NamedTensors()};
  }
  const std::int64_t teacher_size = local.teacher ? local.teacher->options.embedding_size : 0;
  HeadOptions of_head = head_options(job, teacher_size);
  of_head.centre_file = choose_centre_file(
      *comms.inputs, of_head,
      {.job = job,
       .job_id = job_id_,
       .membership = membership,
       .one_host = has_one_host(membership, session),
       .exclusive = output_lock && output_lock->exclusive(),
       .expect_step = [&](std::int64_t step) { expect_no_older_state(session, step); }});
  trainer = std::make_unique<Trainer>(*local.ops, comms, phase, job, job_json, options, of_head);
  if (teacher) {
    trainer->distillation.emplace(*local.ops, std::move(teacher), local.teacher_type,
                                  distillation_options(job, membership.world_size, teacher_size));
  }
  if (local.teacher_centres) {
    const Head& head = *trainer->head;
    local.teacher_centres->fill(*local.ops, head.positions(), head.shard(),
                                trainer->head->teacher());
  }
  if (!local.evaluation_sets.empty() || job.init_centres == InitialCentres::kMean) {
    evaluated_images =
        OwnedTensor(*local.ops, batch_of(options_of_backbone()).shape, DType::kUInt8);
  }
  if (!local.ops->on_host()) measure_nccl();
}

void TrainingSession::go_on_after(const TrainedSoFar& trained) {
  plan = plan_steps(job, membership.world_size, job.num_image, trained);
}

// REQUIRES: go_on_after() was called.
std::string TrainingSession::other_images(const OrderedJob& before) const {
  const std::string order = other_order(before, ordered_job(job_json, plan.batch.images()));
  return repeated_images_message(order, plan) + resized_message(job, plan);
}

// Loads a snapshot from memory. If that is not possible, sets start_message to the reason.
bool TrainingSession::load_from_memory(SnapshotStore* store, std::int64_t images_on_disk) {
  if (!comms.snapshots) return false;
  const SnapshotChoices choices =
      look_for_snapshots(*store, trainer->head->positions(), *comms.snapshots);
  const auto& chosen = choices.newest_whole;
  if (!chosen || chosen->id.trained.images < images_on_disk) {
    start_message = why_not_from_memory(choices, trainer->head->positions(), images_on_disk);
    if (!start_message.empty()) start_message += "; ";
    return false;
  }
  const std::uint64_t moved = load_snapshot(*chosen, *store, state(), *comms.snapshots);
  go_on_after(chosen->id.trained);
  start_message =
      "continued from the copies in memory of " + where_from(*chosen) + "; moved " +
      byte_size_text(moved) + ": next is step " + std::to_string(plan.first_step()) +
      other_images({.job = job_json, .micro_batch = chosen->id.world_size * job.batch_size});
  return true;
}

// Converts a checkpoint of arcface_torch, if the output folder holds one and none of pfc.
std::string TrainingSession::convert_foreign_checkpoint() {
  std::string message;
  on_rank_zero(*comms.inputs, [&] {
    if (!job.resume || newest_checkpoint(job.output)) return;
    const auto theirs = find_arcface_checkpoint(job.output);
    if (!theirs) return;
    const BackboneParameters parameters{.weights = trainer->backbone->weights.parameters,
                                        .state = trainer->backbone->state.parameters};
    const std::int64_t size = centre_size(job.loss, job.embedding_size, job.sub_centres);
    const auto folder = convert_arcface_checkpoint(*theirs, parameters,
                                                   {.network = job.network,
                                                    .sub_centres = job.sub_centres,
                                                    .embedding_size = size,
                                                    .classes = job.num_classes,
                                                    .optimizer = job.optimizer,
                                                    .pixels = job.pixels},
                                                   {.job_id = job_id_,
                                                    .trained = {.planned = plan.batch},
                                                    .classes = job.num_classes,
                                                    .embedding_size = size,
                                                    .job = job_json},
                                                   job.num_image, job.output);
    message = fmt::format("wrote {} from arcface_torch's files of {}; ", folder.string(),
                          counted(static_cast<long long>(theirs->centres.size()), "GPU"));
  });
  return message;
}

/// Starts a job that has neither checkpoint nor snapshot.
void TrainingSession::start_untrained() {
  InitialWeights initial{.message = "weights from seed " + std::to_string(job.seed), .centres = {}};
  if (!job.init_from.empty()) {
    initial = init_from(
        {.file = job.init_from, .names = job.init_from_names, .dataset = local.dataset.get()},
        state());
  }
  if (trainer->average) trainer->average->restart();
  start_message = initial.message;
  if (job.init_centres == InitialCentres::kRandom) return;
  start_message +=
      "; " +
      set_mean_centres({.ops = *local.ops,
                        .head = *trainer->head,
                        .comm = comms.host(),
                        .dataset = *local.dataset,
                        .embed = embed_with(*local.ops, *trainer->backbone, evaluated_images),
                        .options = mean_centres_options(job, local.dataset->info().height,
                                                        local.dataset->info().width),
                        .keep = initial.centres,
                        .doing = local.doing});
}

void TrainingSession::load_weights(SnapshotStore* store) {
  std::string fetched = convert_foreign_checkpoint();
  if (!comms.output.shared()) {
    const std::string copied = fetch_newest_checkpoint(*comms.inputs, checkpoint_options());
    if (!copied.empty()) fetched += copied + "; ";
  }
  // Without `resume`, a later generation resumes only from checkpoints of this job. The folder may
  // also have checkpoints of another job, because the first generation may have failed before it
  // looked there, or was on another host.
  const auto newest = newest_checkpoint_of_all(*comms.inputs, job, job_id_, contents_);
  if (load_from_memory(store, newest ? newest->images : 0)) return;
  const std::string why_not = fetched + start_message;
  if (newest) {
    const CheckpointInfo info =
        comms.output.shared()
            ? load_checkpoint(newest->folder, state())
            : load_checkpoint_of_rank_zero(newest->folder, state(),
                                           {*comms.step, *comms.inputs, comms.output});
    go_on_after(info.trained);
    loaded_from_disk = true;
    start_message = why_not + resumed_message(info, plan) + other_images(newest->ordered);
    return;
  }
  start_untrained();
  if (job.resume || membership.generation > 1)
    start_message = why_not + "resume: no checkpoint in " + job.output.string() +
                    " yet, training begins at step 1; " + start_message +
                    resized_message(job, plan);
}

// A checkpoint may be invisible for a moment, on NFS or on a host that returns. So the error is not
// an InputError, and the coordinator tries again while restarts are left.
void TrainingSession::expect_no_older_state(const SessionOptions& options,
                                            std::int64_t step) const {
  if (step >= options.checkpoint_step) return;
  const std::string host =
      options.checkpoint_host.empty() ? "" : " on host " + options.checkpoint_host;
  const std::string found =
      step == 0 ? "no state was found" : "the newest state found is step " + std::to_string(step);
  throw std::runtime_error(
      "output: " + job.output.string() + host + " should have the checkpoint of step " +
      std::to_string(options.checkpoint_step) + ", but " + found + "; restore it, or " +
      "submit the job again with \"resume\": true to continue from what is there");
}

void TrainingSession::make_saving(SnapshotStore* store) {
  saving.writer = make_checkpoint_writer(checkpoint_options());
  saving.checkpoints = std::make_unique<CheckpointSchedule>(
      job, plan,
      [this](std::int64_t step, bool last) {
        const bool in_place = last || local.memory.checkpoints_in_place;
        saving.writer->begin(state(), plan.after(step), job_json,
                             in_place ? CheckpointMode::kInPlace : CheckpointMode::kCopy);
      },
      *saving.writer, comms.host());
  if (!comms.snapshots) return;
  const auto workers = static_cast<std::size_t>(membership.world_size);
  // A job of one host has no host names.
  const std::vector<std::string> places =
      comms.hosts.empty() ? std::vector<std::string>(workers) : comms.hosts;
  saving.snapshots =
      std::make_unique<SnapshotMaker>(*store, *comms.snapshots,
                                      SnapshotOptions{.membership = membership,
                                                      .keepers = keepers_of(places),
                                                      .seconds = job.snapshot_seconds,
                                                      .track = thread_row("snapshots")});
}

void TrainingSession::make_inputs(const std::function<bool()>& stop_requested) {
  const BatchPlan batches = plan.batches(membership.rank);
  prefetcher = std::make_unique<Prefetcher>(
      *local.dataset, PrefetcherOptions{.batch_size = batches.batch_size,
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
    saving.checkpoints->fill(mine);
    if (saving.snapshots) saving.snapshots->fill(mine);
    return mine;
  };
  const Tensor batch = batch_of(options_of_backbone());
  const auto waits = [this](std::int64_t step) { return finds_neighbours_after(step - 1); };
  inputs = std::make_unique<StepInputs>(*local.ops, *prefetcher, *comms.inputs, *trainer->head,
                                        StepInputsOptions{.images = batch.shape,
                                                          .type = batch.dtype,
                                                          .gradient_acc = job.gradient_acc,
                                                          .labels_per_image = job.labels_per_image,
                                                          .signals = signals,
                                                          .waits_for_step_before = waits,
                                                          .track = thread_row("inputs")});
}

bool TrainingSession::finds_neighbours_after(std::int64_t step) const {
  return job.sampler == Sampler::kHard && plan.reaches_multiple(step, job.hard_refresh);
}

CheckpointOptions TrainingSession::checkpoint_options() {
  return {.output = job.output,
          .job_id = job_id_,
          .lock = output_lock.get(),
          .links = &comms.output,
          .membership = membership,
          .keep = job.keep_checkpoints,
          .global_batch = plan.batch.images(),
          .track = thread_row("checkpoints")};
}

TraceTrack TrainingSession::thread_row(const char* name) {
  return trace.track(TraceRow::kThread, name);
}

BackboneOptions TrainingSession::options_of_backbone() const {
  return backbone_options(job, local.dataset->info().height, local.dataset->info().width);
}

TrainingState TrainingSession::state() {
  return {.ops = *local.ops,
          .backbone = *trainer->backbone,
          .optimizer = trainer->optimizer,
          .head = *trainer->head,
          .loss_scale = trainer->loss_scale,
          .average = trainer->average ? &*trainer->average : nullptr,
          .classes = job.num_classes,
          .network = job.network,
          .feature_size = job.feature_size,
          .sub_centres = job.sub_centres,
          .pixels = job.pixels,
          .threads = threads_,
          .data = contents_};
}

}  // namespace pfc
