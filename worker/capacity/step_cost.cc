#include "worker/capacity/step_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "comm/comm_count.h"

namespace pfc {
namespace {

constexpr double kPixels = 112.0 * 112.0;  // image size for MachineProfile::decode_seconds
constexpr double kBuckets = 16;            // number of gradient buckets (gradients/grad_reducer.h)

/// Returns the factor by which an op is slower because the workers of a host share its cores.
double sharing(const ClusterModel& c) { return c.machine.gpu ? 1 : c.workers_of_host; }

/// Time of a collective over all workers. bytes: the size of the whole result, or of the data that
/// are summed. Each worker sends (W - 1) / W of that size, or in an all-reduce twice as much, which
/// is the minimum.
class Collectives {
 public:
  explicit Collectives(const ClusterModel& c) : c_(c) {}

  [[nodiscard]] double seconds(CollectiveKind kind, double bytes) const {
    if (c_.workers == 1) return 0;
    const double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
    return rounds * (latency() + transfer(kind, bytes));
  }

 private:
  [[nodiscard]] double latency() const {
    const double link = std::max(c_.machine.local.latency, c_.hosts() > 1 ? c_.network.latency : 0);
    // NCCL sends small messages along trees (NCCL docs: LL protocol), Gloo to all workers at once.
    // An all-to-all of NCCL is counted in the same way, although its messages go directly.
    const double steps = c_.machine.gpu ? std::log2(static_cast<double>(c_.workers)) : 1;
    return std::max(1.0, steps) * link;
  }

  /// Returns the time of one round: the slower of the transfers within and between hosts.
  [[nodiscard]] double transfer(CollectiveKind kind, double bytes) const {
    const auto w = static_cast<double>(c_.workers), own = static_cast<double>(c_.workers_of_host);
    const double sent = bytes * (w - 1) / w;  // bytes sent by each worker
    const double within =
        c_.machine.gpu ? sent * c_.machine.local.per_byte : own * sent * c_.machine.local.per_byte;
    if (c_.hosts() == 1) return within;
    // A ring crosses each host's network once. In a mesh, and in every all-to-all, each worker
    // sends to every worker on other hosts.
    const bool ring = c_.machine.gpu && kind != CollectiveKind::kAllToAll;
    const double out = ring ? sent : own * bytes * (w - own) / w;
    return std::max(within, out * c_.network.per_byte);
  }

  const ClusterModel& c_;
};

constexpr std::array kCommunication{"all_gather", "reduce_scatter", "gradient_wait"};

bool communicates(const std::string& phase) {
  return std::ranges::find(kCommunication, phase) != kCommunication.end();
}

/// Returns the core seconds to prepare the inputs of one worker and micro-batch.
double input_seconds(const StepWork& work, std::int64_t batch, std::int64_t pixels,
                     const MachineProfile& machine) {
  const double images = static_cast<double>(batch) * static_cast<double>(pixels) / kPixels;
  return images * machine.decode_seconds + work.head.drawn * machine.draw_seconds;
}

}  // namespace

double StepCost::seconds() const {
  double sum = 0;
  for (const PhaseCost& each : phases) sum += each.seconds;
  return sum;
}

double StepCost::of(const std::string& phase) const {
  const auto found = std::ranges::find(phases, phase, &PhaseCost::phase);
  return found == phases.end() ? 0 : found->seconds;
}

Bottleneck bottleneck_of(const StepCost& step) {
  constexpr double kWaits = 0.01;  // shorter waits, as a fraction of the step, are ignored
  const double all = step.seconds(), waits = step.of("data_wait");
  if (waits > kWaits * all) return {"decoding", waits / all};
  double communication = 0;
  for (const char* phase : kCommunication) communication += step.of(phase);
  const double head = step.of("head"), teacher = step.of("teacher");
  Bottleneck most{"backbone", (all - waits - communication - head - teacher) / all};
  if (teacher > most.share * all) most = {"teacher", teacher / all};
  if (head > most.share * all) most = {"classification layer", head / all};
  if (communication > most.share * all) most = {"communication", communication / all};
  return most;
}

StepCost predict_step(const StepWork& work, std::int64_t batch, std::int64_t pixels,
                      const ClusterModel& c, const Corrections& corrections) {
  const MachineProfile& machine = c.machine;
  const Roofline& roofline = machine.roofline;
  const Collectives collectives(c);
  const double shared = sharing(c);
  const auto micro = static_cast<double>(work.micro_batches);
  const double sync = work.synced_norms * collectives.seconds(CollectiveKind::kAllGather, 0) / 2;
  const double forward = shared * machine.forward * roofline.seconds(work.forward) + sync;
  const double backward = shared * machine.backward * roofline.seconds(work.backward) + sync;
  const double teacher = shared * machine.forward * roofline.seconds(work.teacher);
  const double head = shared * machine.head * roofline.seconds(work.head) +
                      collectives.seconds(CollectiveKind::kAllToAll, work.statistics) +
                      collectives.seconds(CollectiveKind::kAllGather, work.statistics);
  double gather = collectives.seconds(CollectiveKind::kAllGather, work.embeddings);
  if (work.teacher_embeddings > 0) {
    gather += collectives.seconds(CollectiveKind::kAllGather, work.teacher_embeddings);
  }
  const double reduce = collectives.seconds(CollectiveKind::kAllReduce, work.gradients);
  // All buckets except the last are reduced during the backward pass.
  const double hidden = std::min(reduce * (1 - 1 / kBuckets), backward);

  StepCost cost{.phases = {
                    {"data_wait", 0},
                    {"images", micro * shared * roofline.seconds(work.images)},
                    {"forward", micro * forward},
                    {"all_gather", micro * gather},
                    {"head", micro * head},
                    {"reduce_scatter", micro * collectives.seconds(CollectiveKind::kReduceScatter,
                                                                   work.d_embeddings)},
                    {"backward", micro * backward},
                    {"gradient_wait", reduce - hidden},
                    {"optimizer", shared * roofline.seconds(work.optimizer) + machine.step_seconds},
                }};
  if (!work.teacher.empty()) {
    cost.phases.insert(cost.phases.begin() + 3, {"teacher", micro * teacher});
  }
  for (PhaseCost& each : cost.phases) {
    if (const auto found = corrections.find(each.phase); found != corrections.end()) {
      each.seconds *= found->second;
    }
  }
  // Inputs are prepared during the step. On a CPU this uses the same cores and slows down the
  // compute. With a GPU it uses other cores, and training waits only if preparing inputs takes
  // longer than the step.
  const double input = micro * input_seconds(work, batch, pixels, machine);
  if (!machine.gpu) {
    const double stretch = shared * input / machine.cores;
    const double compute = cost.seconds();
    for (PhaseCost& each : cost.phases) each.seconds *= 1 + stretch / std::max(compute, 1e-12);
  }
  cost.input = input;
  const double made = input / static_cast<double>(std::max<std::int64_t>(1, c.decoding_threads));
  cost.phases.front().seconds = std::max(0.0, made - cost.seconds());
  return cost;
}

Corrections corrections(const StepCost& predicted, const StepCost& measured) {
  Corrections factors;
  double said = 0, was = 0;
  const double least = 0.001 * measured.seconds();
  for (const PhaseCost& phase : predicted.phases) {
    const double seconds = measured.of(phase.phase);
    if (phase.phase == "data_wait") continue;
    if (communicates(phase.phase)) {
      said += phase.seconds;
      was += seconds;
    } else if (phase.seconds > least && seconds > least) {
      factors[phase.phase] = seconds / phase.seconds;
    }
  }
  if (said > least && was > least) {
    for (const char* phase : kCommunication) factors[phase] = was / said;
  }
  return factors;
}

}  // namespace pfc
