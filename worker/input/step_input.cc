#include "worker/input/step_input.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"

namespace pfc {

WorkerSignals combine(std::span<const WorkerSignals> workers) {
  check(!workers.empty(), "combine: no workers");
  WorkerSignals all = workers.front();
  for (const WorkerSignals& w : workers.subspan(1)) {
    all.stop = all.stop || w.stop;
    all.data_failed = all.data_failed || w.data_failed;
    all.checkpoint_request = std::max(all.checkpoint_request, w.checkpoint_request);
    all.checkpoint_on_disk = std::min(all.checkpoint_on_disk, w.checkpoint_on_disk);
    all.snapshot_request = std::max(all.snapshot_request, w.snapshot_request);
  }
  return all;
}

namespace {

// One worker's message: [stop, data_failed, checkpoint_request, checkpoint_on_disk,
// snapshot_request, labels...], all int64.
constexpr std::size_t kHeader = 5;

std::size_t message_words(std::size_t labels) { return kHeader + labels; }

}  // namespace

StepInputs::StepInputs(Ops& ops, Prefetcher& prefetcher, Comm& comm, const Head& head,
                       const StepInputsOptions& options)
    : prefetcher_(prefetcher), comm_(comm), head_(head), options_(options) {
  if (!ops.on_host()) upload_.emplace(ops, options.images, options.type);
  thread_ = std::thread([this] { run(); });
}

StepInputs::~StepInputs() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (upload_) upload_->close();
  thread_.join();
}

StepInput StepInputs::next() {
  const TimePoint start = Clock::now();
  std::unique_lock lock(mutex_);
  wanted_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return ready_.has_value() || error_ != nullptr; });
  wanted_ = false;
  if (!ready_.has_value()) std::rethrow_exception(error_);
  StepInput input = std::move(*ready_);
  // The input that marks the end stays in ready_, so that later calls return it again.
  if (input.batch != nullptr) {
    ready_.reset();
  } else {
    ready_.emplace();
  }
  lock.unlock();
  changed_.notify_all();
  if (input.batch != nullptr) input.images = images_of(*input.batch);
  input.wait_seconds = seconds_since(start);
  return input;
}

void StepInputs::recycle(StepInput& input) {
  if (upload_) upload_->release();
  input.images = {};
  prefetcher_.recycle(std::move(input.batch));
}

// On a CPU the images are used in place, in the prefetcher's batch.
Tensor StepInputs::images_of(Batch& batch) {
  if (upload_) return upload_->take();
  const Tensor images(batch.images.data(), options_.type, options_.images);
  check(batch.images.size() == images.bytes(), "StepInputs: images of another shape");
  return images;
}

void StepInputs::run() {
  try {
    while (hand_over(make())) {
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  changed_.notify_all();
}

StepInput StepInputs::make() {
  StepInput input;
  if (stopped_) return input;
  std::string failure;
  try {
    const TraceTrack::Scope scope(options_.track, "wait_for_batch");
    input.batch = prefetcher_.next();
    if (input.batch == nullptr) return input;
  } catch (const InputError& error) {
    failure = error.what();
  }
  exchange(input, !failure.empty());
  if (input.signals.data_failed) {
    const bool mine = !failure.empty();
    throw DataFailed(mine ? failure : "the data of another worker have failed", mine);
  }
  if (upload_) {
    const TraceTrack::Scope scope(options_.track, "copy_to_device", input.batch->index);
    upload_->put(input.batch->images);
  }
  return input;
}

// A worker whose data have failed takes part too, to inform the others.
void StepInputs::exchange(StepInput& input, bool data_failed) {
  WorkerSignals mine = options_.signals();
  mine.data_failed = data_failed;
  const auto labels = static_cast<std::size_t>(options_.images[0] * options_.labels_per_image);
  const std::size_t words = message_words(labels);
  message_.assign({mine.stop, mine.data_failed, mine.checkpoint_request, mine.checkpoint_on_disk,
                   mine.snapshot_request});
  if (!data_failed) {
    message_.insert(message_.end(), input.batch->labels.begin(), input.batch->labels.end());
  }
  message_.resize(words);
  const auto workers = static_cast<std::size_t>(comm_.size());
  std::vector<std::int64_t>& all = input.all_labels;
  all.resize(workers * words);  // the messages, whose labels then move to the front
  const auto count = static_cast<std::int64_t>(words);
  comm_.all_gather(Tensor(message_.data(), DType::kInt64, {count}),
                   Tensor(all.data(), DType::kInt64, {comm_.size(), count}));

  std::vector<WorkerSignals> signals;
  for (std::size_t w = 0; w < workers; ++w) {
    const std::int64_t* from = all.data() + w * words;
    signals.push_back({from[0] != 0, from[1] != 0, from[2], from[3], from[4]});
    std::copy(from + kHeader, from + words, all.data() + w * labels);
  }
  all.resize(workers * labels);
  input.signals = combine(signals);
  if (input.signals.data_failed) return;
  // All workers stop at this micro-batch. A worker that continued would wait for labels forever.
  stopped_ = input.signals.stop;
  const Batch& batch = *input.batch;
  // The step is the key of the random sampling, so all micro-batches of a step use the same
  // negatives.
  input.step = batch.index / options_.gradient_acc + 1;
  const TraceTrack::Scope scope(options_.track, "sample_classes", batch.index);
  std::ranges::transform(all, all.begin(),
                         [this](auto label) { return head_.positions().position_of(label); });
  if (!wait_until_wanted(batch.index, input.step)) return;
  input.active = head_.sample(input.all_labels, input.step);
  head_.read_ahead(input.active);
}

// The training thread asks for the first micro-batch of a step when the step before is complete.
// Returns false if this object is being destroyed.
bool StepInputs::wait_until_wanted(std::int64_t micro_batch, std::int64_t step) {
  const bool first = micro_batch % options_.gradient_acc == 0;
  if (!first || !options_.waits_for_step_before || !options_.waits_for_step_before(step)) {
    return true;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (wanted_ && !ready_.has_value()) || closed_; });
  return !closed_;
}

// Blocks until the previous input has been taken. Returns whether to make another input.
bool StepInputs::hand_over(StepInput input) {
  const bool last = input.batch == nullptr;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.has_value() || closed_; });
  if (closed_) return false;
  ready_ = std::move(input);
  lock.unlock();
  changed_.notify_all();
  return !last;
}

std::size_t step_label_bytes(std::int64_t labels, int workers) {
  const auto w = static_cast<std::size_t>(workers);
  const std::size_t words = message_words(static_cast<std::size_t>(labels) / w);
  return (kStepInputs * w + 1) * words * sizeof(std::int64_t);
}

}  // namespace pfc
