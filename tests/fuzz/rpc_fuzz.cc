// Messages of a client to the coordinator's gRPC port: any bytes, for any method. The first byte of
// an input selects the method. The second byte says where the bytes of a stream are divided into
// two messages.
//
// Calls are answered while later inputs are generated, because waiting for each call would slow
// down the test. So the cause of a failure may be any of the last kInFlight inputs.
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace std::chrono_literals;
using pfc::testing::kJob;
namespace proto = pfc::proto;

constexpr std::size_t kInFlight = 256;
constexpr std::size_t kHeader = 2;

struct Method {
  std::string_view name;
  bool streams = false;
};
constexpr std::array kMethods{Method{"AttachAgent", true},
                              Method{"Join"},
                              Method{"AttachWorker", true},
                              Method{"Finish"},
                              Method{"SetValue"},
                              Method{"GetValue"},
                              Method{"GetValues"},
                              Method{"Status"},
                              Method{"Stop"},
                              Method{"Submit"},
                              Method{"Queue"},
                              Method{"Logs"}};

grpc::ByteBuffer buffer_of(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

/// One call. The queue returns its completions in the order of its steps.
class Call {
 public:
  Call(grpc::GenericStub& stub, grpc::CompletionQueue& queue, const Method& method,
       std::string_view first, std::string_view second)
      : second_(buffer_of(second)) {
    context_.set_deadline(std::chrono::system_clock::now() + 200ms);
    const std::string path = "/pfc.proto.CoordinatorService/" + std::string(method.name);
    const grpc::ByteBuffer request = buffer_of(first);
    if (!method.streams) {
      unary_ = stub.PrepareUnaryCall(&context_, path, request, &queue);
      unary_->StartCall();
      unary_->Finish(&reply_, &status_, this);
      step_ = kLast;
      return;
    }
    first_ = request;
    stream_ = stub.PrepareCall(&context_, path, &queue);
    stream_->StartCall(this);
  }

  /// Handles a finished step. Returns whether it was the last one.
  bool advance(bool ok) {
    if (step_ == kLast) return true;
    step_ = ok ? step_ + 1 : kLast;
    if (step_ == 1) {
      stream_->Write(first_, this);
    } else if (step_ == 2) {
      stream_->Write(second_, this);
    } else {
      step_ = kLast;
      if (!ok) context_.TryCancel();
      stream_->Finish(&status_, this);
    }
    return false;
  }

 private:
  static constexpr int kLast = 3;
  int step_ = 0;
  grpc::ClientContext context_;
  grpc::ByteBuffer first_, second_, reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

/// A coordinator with an agent, and the client that sends the inputs.
class Target {
 public:
  Target() : coordinator_({{.name = "a", .slots = 2}}, config()), stub_(channel()) {
    agent_.emplace(coordinator_.address(), "a");
    agent_->is_told_workers();
  }
  ~Target() {
    while (in_flight_ > 0) wait_for_one();
    agent_.reset();
  }

  void send(const Method& method, std::string_view first, std::string_view second) {
    while (in_flight_ >= kInFlight) wait_for_one();
    new Call(stub_, queue_, method, first, second);  // wait_for_one() deletes it
    in_flight_ += 1;
  }

  bool job_is_over() {
    coordinator_.forget_output();
    const std::string state = coordinator_.status().state();
    return state == "failed" || state == "stopped" || state == "completed";
  }

 private:
  static pfc::RendezvousConfig config() {
    pfc::RendezvousConfig config = pfc::testing::impatient();
    config.max_restarts = 1'000'000;
    config.elastic.first_pause = {};
    return config;
  }
  std::shared_ptr<grpc::Channel> channel() { return pfc::make_channel(coordinator_.address()); }

  void wait_for_one() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok)) __builtin_trap();
    std::unique_ptr<Call> call(static_cast<Call*>(tag));
    if (!call->advance(ok)) return static_cast<void>(call.release());
    in_flight_ -= 1;
  }

  pfc::testing::RunningCoordinator coordinator_;
  std::optional<pfc::testing::VoiceOfAgent> agent_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::size_t in_flight_ = 0;
};

template <typename Message>
std::string seed(std::size_t method, const Message& message) {
  return std::string{static_cast<char>(method), '\xff'} + message.SerializeAsString();
}

template <typename Message>
Message of_the_job() {
  Message message;
  if constexpr (requires { message.set_job(kJob); }) {
    message.set_job(kJob);
  } else {
    message.set_job_id(kJob);
  }
  if constexpr (requires { message.set_generation(1); }) message.set_generation(1);
  if constexpr (requires { message.mutable_worker(); }) {
    message.mutable_worker()->set_agent_id("first");
    message.mutable_worker()->set_incarnation(1);
  }
  return message;
}

proto::AgentMessage registration() {
  proto::AgentMessage message;
  message.mutable_registration()->set_host("a");
  message.mutable_registration()->set_agent_id("first");
  message.mutable_registration()->set_version(pfc::version());
  message.mutable_registration()->add_devices("cpu (2 cores)");
  return message;
}

/// Returns the bytes of an agent that registers and then sends `message`. The second byte divides
/// them near the end of the registration. Some mutations of it divide them exactly at this end, so
/// that both messages can be parsed.
std::string after_registration(const proto::AgentMessage& message) {
  const std::string hello = registration().SerializeAsString(), next = message.SerializeAsString();
  const std::size_t cut =
      (hello.size() * 255 + hello.size() + next.size() - 1) / (hello.size() + next.size());
  return std::string{'\0', static_cast<char>(cut)} + hello + next;
}

proto::WorkerMessage progress() {
  auto message = of_the_job<proto::WorkerMessage>();
  message.mutable_progress()->set_step(3);
  message.mutable_progress()->set_phase("forward");
  message.mutable_progress()->set_loss(4.5);
  message.mutable_progress()->add_phases()->set_phase("head");
  message.mutable_progress()->add_comm()->set_purpose("step");
  return message;
}

}  // namespace

std::vector<std::string> pfc::fuzz::seeds() {
  auto exited = of_the_job<proto::AgentMessage>();
  exited.mutable_exited()->set_incarnation(1);
  exited.mutable_exited()->add_last_stderr("it broke");
  auto output = of_the_job<proto::AgentMessage>();
  output.mutable_output()->set_incarnation(1);
  output.mutable_output()->add_lines("step 3");
  auto finish = of_the_job<proto::FinishRequest>();
  finish.set_outcome(proto::OUTCOME_COMM_FAILED);
  finish.set_message("rank 1 has gone");
  auto join = of_the_job<proto::JoinRequest>();
  join.set_timeout_ms(1'000);
  auto set = of_the_job<proto::SetValueRequest>();
  set.set_key("here/0");
  set.set_value("10.0.0.1");
  auto get = of_the_job<proto::GetValueRequest>();
  get.set_key("here/0");
  get.set_timeout_ms(100);
  auto all = of_the_job<proto::GetValuesRequest>();
  all.set_prefix("here/");
  all.set_count(2);
  proto::SubmitRequest submit;
  submit.set_job_json(R"({"network": "mbf", "rec": "/data", "output": "/out"})");
  submit.set_file("job.json");
  auto logs = of_the_job<proto::LogsRequest>();
  logs.mutable_from()->set_part(1);
  return {after_registration(exited),
          after_registration(output),
          seed(1, join),
          seed(2, progress()),
          seed(3, finish),
          seed(4, set),
          seed(5, get),
          seed(6, all),
          seed(7, proto::StatusRequest()),
          seed(8, of_the_job<proto::StopRequest>()),
          seed(9, submit),
          seed(10, proto::QueueRequest()),
          seed(11, logs)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::optional<Target> target;
  static int inputs = 0;
  if (!target) target.emplace();
  if (++inputs % 1'000 == 0 && target->job_is_over()) target.emplace();
  if (size < kHeader) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + kHeader, size - kHeader);
  const std::size_t cut = data[1] * bytes.size() / 255;
  const Method& method = kMethods[data[0] % kMethods.size()];
  if (method.streams) {
    target->send(method, bytes.substr(0, cut), bytes.substr(cut));
  } else {
    target->send(method, bytes, {});
  }
  return 0;
}
