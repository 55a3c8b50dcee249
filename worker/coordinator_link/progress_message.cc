#include "worker/coordinator_link/progress_message.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/phase_buckets.h"

namespace pfc {
namespace {

proto::GpuReading proto_gpu(const GpuReading& reading) {
  proto::GpuReading message;
  if (reading.utilisation) message.set_utilisation(*reading.utilisation);
  if (reading.memory_used) message.set_memory_used(*reading.memory_used);
  if (reading.memory_total) message.set_memory_total(*reading.memory_total);
  if (reading.temperature_celsius) message.set_temperature_celsius(*reading.temperature_celsius);
  if (reading.power_watts) message.set_power_watts(*reading.power_watts);
  if (reading.throttled) message.set_throttled(*reading.throttled);
  return message;
}

proto::CheckpointTotal proto_checkpoints(const Progress::Checkpoints& checkpoints) {
  proto::CheckpointTotal message;
  message.set_count(checkpoints.count);
  message.set_seconds(checkpoints.seconds);
  message.set_held_seconds(checkpoints.held_seconds);
  message.set_bytes(checkpoints.bytes);
  message.set_newest_seconds(checkpoints.newest_seconds);
  message.set_newest_bytes(checkpoints.newest_bytes);
  return message;
}

void add_kinds(const std::array<CollectiveTotals, kCollectiveKinds>& kinds,
               proto::CommTotal& message) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].calls == 0) continue;
    proto::CollectiveTotal* added = message.add_kinds();
    added->set_kind(name_of(static_cast<CollectiveKind>(i)));
    added->set_calls(kinds[i].calls);
    added->set_sent_bytes(kinds[i].sent_bytes);
    added->set_seconds(kinds[i].seconds);
  }
}

/// Linear search, because a step has only about a dozen phases.
proto::PhaseSeconds& phase_of(const std::string& name, proto::Progress& progress) {
  for (proto::PhaseSeconds& each : *progress.mutable_phases()) {
    if (each.phase() == name) return each;
  }
  proto::PhaseSeconds& added = *progress.add_phases();
  added.set_phase(name);
  return added;
}

void count_in(std::size_t bucket, std::uint32_t count, proto::PhaseSeconds& phase) {
  while (phase.buckets_size() <= static_cast<int>(bucket)) phase.add_buckets(0);
  const int at = static_cast<int>(bucket);
  phase.set_buckets(at, phase.buckets(at) + count);
}

}  // namespace

void add_phases(const proto::Progress& more, proto::Progress& progress) {
  for (const proto::PhaseSeconds& each : more.phases()) {
    proto::PhaseSeconds& all = phase_of(each.phase(), progress);
    all.set_seconds(all.seconds() + each.seconds());
    all.set_count(all.count() + each.count());
    all.set_longest(std::max(all.longest(), each.longest()));
    for (int i = 0; i < each.buckets_size(); ++i) {
      if (each.buckets(i) > 0) count_in(static_cast<std::size_t>(i), each.buckets(i), all);
    }
  }
}

proto::Progress to_proto(const Progress& progress) {
  proto::Progress message;
  message.set_starting(progress.starting);
  message.set_work(progress.work);
  message.set_step(progress.step);
  message.set_total_steps(progress.total_steps);
  message.set_epoch(progress.epoch);
  message.set_phase(progress.phase);
  message.set_loss(progress.loss);
  if (progress.distillation_loss) message.set_distillation_loss(*progress.distillation_loss);
  if (progress.logits_loss) message.set_logits_loss(*progress.logits_loss);
  message.set_lr(progress.lr);
  message.set_samples_per_second(progress.samples_per_second);
  message.set_data_wait_seconds(progress.data_wait_seconds);
  message.set_own_seconds(progress.own_seconds);
  message.set_resident_bytes(progress.resident_bytes);
  message.set_gpu_memory_bytes(progress.gpu_memory_bytes);
  message.set_device(progress.device);
  message.set_skipped_images(progress.skipped_images);
  message.set_saved_step(progress.saved_step);
  message.set_checkpoint_step(progress.checkpoint_step);
  message.set_memory_step(progress.memory_step);
  message.set_output_unshared(progress.output_unshared);
  message.set_images_seen(progress.images_seen);
  message.set_resumed_images(progress.resumed_images);
  message.set_most_workers(progress.most_workers);
  message.set_least_workers(progress.least_workers);
  message.set_samples(progress.samples);
  message.set_steps(progress.steps);
  message.set_step_seconds(progress.step_seconds);
  message.set_own_data_wait_seconds(progress.own_data_wait_seconds);
  message.set_loader_seconds(progress.loader_seconds);
  message.set_loader_threads(progress.loader_threads);
  message.set_gradient_norm(progress.gradient_norm);
  message.set_loss_scale(progress.loss_scale);
  message.set_cpu_seconds(progress.vitals.cpu_seconds);
  if (progress.vitals.gpu) *message.mutable_gpu() = proto_gpu(*progress.vitals.gpu);
  if (progress.checkpoints.count > 0) {
    *message.mutable_checkpoints() = proto_checkpoints(progress.checkpoints);
  }
  for (const Progress::PhaseSeconds& sample : progress.phases) {
    proto::PhaseSeconds& all = phase_of(sample.phase, message);
    all.set_seconds(all.seconds() + sample.seconds);
    all.set_count(all.count() + 1);
    all.set_longest(std::max(all.longest(), sample.seconds));
    count_in(phase_bucket(sample.seconds), 1, all);
  }
  for (const Progress::CommTotal& total : progress.comm) {
    proto::CommTotal* added = message.add_comm();
    added->set_purpose(total.purpose);
    added->set_calls(total.calls);
    added->set_done(total.done);
    added->set_newest(total.newest);
    added->set_sent_bytes(total.sent_bytes);
    add_kinds(total.kinds, *added);
  }
  return message;
}

}  // namespace pfc
