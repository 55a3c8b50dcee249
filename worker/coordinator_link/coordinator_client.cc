#include "worker/coordinator_link/coordinator_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/one_line.h"
#include "common/version.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/reconnecting_stream.h"
#include "worker/coordinator_link/progress_message.h"
#include "worker/coordinator_link/trace_message.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSetTimeout{30'000};
constexpr milliseconds kFinishTimeout{10'000};
// If a worker is missing, the coordinator itself ends the wait and names the missing ranks. The
// client's deadline is a little later, for a coordinator that does not answer at all.
constexpr milliseconds kAnswerSlack{5'000};
constexpr milliseconds kRetryPause{100};
constexpr milliseconds kHeartbeat{1'000};
// The maximum pause between two attempts to connect. The next attempt follows as soon as the
// connection is back.
constexpr milliseconds kConnectPause{1'000};

// The enums match the protocol's. Outcome has no OUTCOME_UNKNOWN, so its values are one lower.
constexpr bool are_same(auto ours, auto theirs) { return static_cast<int>(ours) == theirs; }
using Outcome = CoordinatorClient::Outcome;
static_assert(are_same(Outcome::kCompleted, proto::OUTCOME_COMPLETED - 1));
static_assert(are_same(Outcome::kStopped, proto::OUTCOME_STOPPED - 1));
static_assert(are_same(Outcome::kFailed, proto::OUTCOME_FAILED - 1));
static_assert(are_same(Outcome::kCommFailed, proto::OUTCOME_COMM_FAILED - 1));
static_assert(are_same(Outcome::kBadInput, proto::OUTCOME_BAD_INPUT - 1));
using enum CheckFinding::Verdict;
static_assert(are_same(kOk, proto::CHECK_OK) && are_same(kNote, proto::CHECK_NOTE));
static_assert(are_same(kSlows, proto::CHECK_SLOWS) && are_same(kStops, proto::CHECK_STOPS));
using enum CheckFinding::Comparison;
static_assert(are_same(kNone, proto::CHECK_NOT_COMPARED));
static_assert(are_same(kSameEverywhere, proto::CHECK_SAME_EVERYWHERE));
static_assert(are_same(kAsFastAsOthers, proto::CHECK_AS_FAST_AS_OTHERS));

/// Sets neither host nor rank, because the coordinator knows the sender.
proto::CheckFinding finding_message(const CheckFinding& finding) {
  proto::CheckFinding message;
  message.set_rank(finding.of_host ? -1 : 0);
  message.set_what(one_line(finding.what));
  message.set_found(finding.found);
  message.set_expected(finding.expected);
  message.set_verdict(static_cast<proto::CheckVerdict>(finding.verdict));
  message.set_remedy(finding.remedy);
  message.set_value(finding.value);
  message.set_unit(finding.unit);
  message.set_comparison(static_cast<proto::CheckComparison>(finding.comparison));
  message.set_otherwise(static_cast<proto::CheckVerdict>(finding.otherwise));
  message.set_enough(finding.enough);
  return message;
}

GenerationKind kind_of(proto::CheckPart part) {
  if (part == proto::CHECK_PART_ALONE) return GenerationKind::kCheckAlone;
  if (part == proto::CHECK_PART_TOGETHER) return GenerationKind::kCheckTogether;
  return GenerationKind::kTraining;
}

/// Splits the reply into its values. Throws CommError if there are not `count` values, or if the
/// sum of their sizes is not the number of bytes in the reply.
std::vector<std::optional<std::vector<char>>> values_of(const proto::GetValuesReply& reply,
                                                        std::size_t count) {
  std::vector<std::optional<std::vector<char>>> values;
  std::size_t begin = 0;
  for (const std::uint32_t size : reply.sizes()) {
    const std::string value = reply.values().substr(std::min(begin, reply.values().size()), size);
    values.emplace_back(std::in_place, value.begin(), value.end());
    begin += size;
  }
  if (values.size() != count) {
    throw CommError("the coordinator has answered with " + std::to_string(values.size()) +
                    " values, expected " + std::to_string(count));
  }
  if (begin != reply.values().size()) {
    throw CommError("the coordinator has answered with " + std::to_string(reply.values().size()) +
                    " bytes of values, but their sizes add up to " + std::to_string(begin));
  }
  for (const int number : reply.missing()) values.at(static_cast<std::size_t>(number)).reset();
  return values;
}

class GrpcCoordinatorClient final : public CoordinatorClient {
  using Rpc = std::function<grpc::Status(grpc::ClientContext*, milliseconds left)>;

 public:
  explicit GrpcCoordinatorClient(const CoordinatorClientOptions& options)
      : options_(options),
        channel_(make_channel(options.address, options.credential)),
        stub_(proto::CoordinatorService::NewStub(channel_)) {}

  JoinResult join(milliseconds timeout) override {
    stream_.reset();  // it belongs to the previous generation
    proto::JoinReply reply;
    const Rpc ask = [&](grpc::ClientContext* context, milliseconds left) {
      proto::JoinRequest request;
      request.set_job_id(options_.job_id);
      *request.mutable_worker() = id();
      request.set_timeout_ms(left.count());
      request.set_left_generation(generation_);
      request.set_version(version());
      return stub_->Join(context, request, &reply);
    };
    call("join", timeout, ask, options_.grace);
    rank_ = reply.rank();
    generation_ = reply.generation();
    {
      const std::lock_guard lock(mutex_);
      sent_ = false;  // progress of the previous generation does not count
    }
    {
      const std::lock_guard lock(listener_mutex_);
      superseded_ = false;
    }
    // May have been set in the last generation, so that its members could change.
    stop_requested_ = false;
    attach(std::max(report_pause(reply.world_size()), kHeartbeat));
    return {.membership = {.rank = reply.rank(),
                           .world_size = reply.world_size(),
                           .generation = reply.generation(),
                           .local_rank = reply.local_rank(),
                           .local_world_size = reply.local_world_size()},
            .job_json = reply.job_json(),
            .peer_address = reply.peer_address(),
            .host = reply.host(),
            .checkpoint_step = reply.checkpoint_step(),
            .checkpoint_host = reply.checkpoint_host(),
            .planned_workers = reply.planned_workers(),
            .kind = kind_of(reply.check())};
  }

  void set(const std::string& key, const std::vector<char>& value) override {
    call("set key '" + key + "'", kSetTimeout, [&](grpc::ClientContext* context, milliseconds) {
      proto::SetValueRequest request;
      proto::SetValueReply reply;
      request.set_job_id(options_.job_id);
      request.set_generation(generation_);
      request.set_key(key);
      request.set_value(value.data(), value.size());
      return stub_->SetValue(context, request, &reply);
    });
  }

  std::vector<char> get(const std::string& key, milliseconds timeout) override {
    proto::GetValueReply reply;
    call("get key '" + key + "'", timeout, [&](grpc::ClientContext* context, milliseconds left) {
      proto::GetValueRequest request;
      request.set_job_id(options_.job_id);
      request.set_generation(generation_);
      request.set_key(key);
      request.set_timeout_ms(left.count());
      return stub_->GetValue(context, request, &reply);
    });
    return {reply.value().begin(), reply.value().end()};
  }

  std::vector<std::optional<std::vector<char>>> get_all(const std::string& prefix, int count,
                                                        milliseconds timeout) override {
    proto::GetValuesReply reply;
    call("get keys '" + prefix + "*'", timeout,
         [&](grpc::ClientContext* context, milliseconds left) {
           proto::GetValuesRequest request;
           request.set_job_id(options_.job_id);
           request.set_generation(generation_);
           request.set_prefix(prefix);
           request.set_count(count);
           request.set_timeout_ms(left.count());
           return stub_->GetValues(context, request, &reply);
         });
    return values_of(reply, static_cast<std::size_t>(count));
  }

  void report(const Progress& progress) override {
    proto::Progress message = to_proto(progress);
    {
      std::lock_guard lock(mutex_);
      if (unsent_) add_phases(newest_, message);  // the old report was not sent: keep its phases
      newest_ = std::move(message);
      unsent_ = true;
    }
    if (stream_) stream_->wake();
  }

  std::chrono::system_clock::time_point report_check(
      const std::vector<CheckFinding>& findings) override {
    proto::ReportCheckReply reply;
    call("report of a check", kSetTimeout, [&](grpc::ClientContext* context, milliseconds) {
      proto::ReportCheckRequest request;
      request.set_job_id(options_.job_id);
      *request.mutable_worker() = id();
      for (const CheckFinding& each : findings) *request.add_findings() = finding_message(each);
      return stub_->ReportCheck(context, request, &reply);
    });
    return std::chrono::system_clock::time_point(std::chrono::microseconds(reply.wall_us()));
  }

  void on_trace(std::function<void(const TraceOrder&)> listener) override {
    const std::lock_guard lock(listener_mutex_);
    trace_listener_ = std::move(listener);
  }

  WallTime send_trace(const TracePart& part, milliseconds timeout) override {
    proto::SendTraceReply reply;
    call("part of a trace", timeout, [&](grpc::ClientContext* context, milliseconds) {
      proto::SendTraceRequest request = to_proto(part);
      request.set_job_id(options_.job_id);
      request.set_generation(generation_);
      request.set_rank(rank_);
      return stub_->SendTrace(context, request, &reply);
    });
    return WallTime(
        std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(reply.clock_ns())));
  }

  bool stop_requested() const override { return stop_requested_; }
  void on_superseded(std::function<void(const std::string&)> listener) override {
    const std::lock_guard lock(listener_mutex_);
    listener_ = std::move(listener);
    if (superseded_) tell_listener();
  }

  Farewell finish(Outcome outcome, const std::string& message) override {
    proto::FinishRequest request;
    request.set_job_id(options_.job_id);
    *request.mutable_worker() = id();
    request.set_outcome(static_cast<proto::Outcome>(1 + static_cast<int>(outcome)));
    request.set_message(message);
    request.set_left_generation(generation_);
    {
      // Repeat a report that was already given to the stream, because there it may arrive too late
      // to count.
      std::lock_guard lock(mutex_);
      if (unsent_ || sent_) *request.mutable_progress() = newest_;
      unsent_ = false;
    }
    proto::FinishReply reply;
    try {
      const Rpc tell = [&](grpc::ClientContext* context, milliseconds) {
        return stub_->Finish(context, request, &reply);
      };
      call("finish", kFinishTimeout, tell, options_.grace);
    } catch (const CommError&) {
      return {};  // the agent will report how this process ended
    }
    return {.told = true, .join_again = reply.join_again()};
  }

 private:
  [[nodiscard]] proto::WorkerId id() const {
    proto::WorkerId id;
    id.set_agent_id(options_.agent_id);
    id.set_slot(options_.slot);
    id.set_incarnation(options_.incarnation);
    return id;
  }

  /// Retries the call until the coordinator answers or the timeout expires. With a `grace`, time
  /// without a coordinator does not count towards the timeout, but the wait ends `grace` after the
  /// last connection was lost. Throws CommError.
  void call(const std::string& what, milliseconds timeout, const Rpc& rpc,
            milliseconds grace = milliseconds{0}) {
    const TimePoint begin = Clock::now();
    TimePoint deadline = begin + timeout;
    TimePoint away_since = begin;
    while (true) {
      const bool connected =
          wait_for_connection(*channel_, std::clamp(until(deadline), kRetryPause, kConnectPause));
      const auto left = std::max(until(deadline), milliseconds{0});
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + left + kAnswerSlack);
      const grpc::Status status = rpc(&context, left);
      if (status.ok()) return;
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
        if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
          supersede(status.error_message());
        }
        throw CommError(what + ": " + status.error_message());
      }
      // The connection existed and is now lost, so the `grace` begins here.
      if (connected) away_since = Clock::now();
      const bool waits = grace > milliseconds{0} && until(away_since + grace) > kRetryPause &&
                         !(options_.gives_up && options_.gives_up());
      if (!waits && until(deadline) <= kRetryPause) {
        throw CommError(what + ": coordinator " + options_.address + " cannot be reached for " +
                        std::to_string(-until(begin).count() / 1000) + " s (" +
                        status.error_message() + ")");
      }
      std::this_thread::sleep_for(kRetryPause);
      if (waits) deadline = Clock::now() + timeout;
    }
  }

  static milliseconds until(TimePoint time) {
    return std::chrono::duration_cast<milliseconds>(time - Clock::now());
  }

  void attach(milliseconds heartbeat) {
    using Stream = ReconnectingStream<proto::WorkerMessage, proto::WorkerCommand>;
    Stream::Options options;
    options.channel = channel_;
    options.heartbeat = heartbeat;
    options.open = [this](grpc::ClientContext* context) { return stub_->AttachWorker(context); };
    options.hello = [this] { return next_messages(); };
    options.take = [this] { return next_messages(); };
    options.received = [this](const proto::WorkerCommand& command) {
      if (command.stop()) stop_requested_ = true;
      if (command.superseded()) supersede(command.why());
      if (command.has_trace()) tell_trace(command.trace());
    };
    options.lost = [this](const grpc::Status& status, milliseconds) {
      if (status.error_code() != grpc::StatusCode::FAILED_PRECONDITION) return true;
      supersede(status.error_message());
      return false;
    };
    stream_ = std::make_unique<Stream>(std::move(options));
  }

  void supersede(const std::string& why) {
    const std::lock_guard lock(listener_mutex_);
    if (superseded_) return;
    superseded_ = true;
    superseded_by_ = why;
    tell_listener();
  }

  void tell_trace(const proto::TraceOrder& order) {
    const std::lock_guard lock(listener_mutex_);
    if (!trace_listener_) return;
    trace_listener_({.id = order.trace(),
                     .first_step = order.first_step(),
                     .last_step = order.last_step(),
                     .most_spans = order.most_spans()});
  }

  /// REQUIRES: the caller holds listener_mutex_.
  void tell_listener() {
    if (const auto listener = std::exchange(listener_, {})) listener(superseded_by_);
  }

  std::vector<proto::WorkerMessage> next_messages() {
    proto::WorkerMessage message;
    message.set_job_id(options_.job_id);
    message.set_generation(generation_);
    message.set_rank(rank_);
    std::lock_guard lock(mutex_);
    if (unsent_) {
      *message.mutable_progress() = newest_;
      newest_.clear_phases();  // each sample is counted once
      sent_ = true;
    }
    unsent_ = false;
    return {std::move(message)};
  }

  const CoordinatorClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;  // shared with stub_ and stream_
  const std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  std::atomic<Rank> rank_{0};              // from the last join
  std::atomic<Generation> generation_{0};  // from the last join
  std::atomic<bool> stop_requested_{false};
  std::mutex listener_mutex_;
  bool superseded_ = false;                                // guarded by listener_mutex_
  std::string superseded_by_;                              // guarded by listener_mutex_
  std::function<void(const std::string& why)> listener_;   // guarded by listener_mutex_
  std::function<void(const TraceOrder&)> trace_listener_;  // guarded by listener_mutex_
  std::mutex mutex_;
  proto::Progress newest_;  // guarded by mutex_
  bool unsent_ = false;     // guarded by mutex_: not yet taken by the stream
  bool sent_ = false;       // guarded by mutex_: the stream has taken a report of this generation
  // Set by join(). The last member, because its threads use all others.
  std::unique_ptr<ReconnectingStream<proto::WorkerMessage, proto::WorkerCommand>> stream_;
};

}  // namespace

std::unique_ptr<CoordinatorClient> connect_to_coordinator(const CoordinatorClientOptions& options) {
  return std::make_unique<GrpcCoordinatorClient>(options);
}

}  // namespace pfc
