// Measures the coordinator's cost of many workers: joins, the exchange of addresses (roll call),
// heartbeats, reports during training (with and without a reader of the page at /), and a page of
// metrics. The coordinator runs in a separate process, whose CPU time is measured. All workers run
// in one other process, each with its own connection.
//
//   join_benchmark [tls] [WORKERS]...
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/machine/descriptors.h"
#include "common/version.h"
#include "coordinator/web/http_server.h"
#include "coordinator/web/pages.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_runtime.h"
#include "security/private_key.h"
#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/temporary_folder.h"
#include "worker/coordinator_link/progress.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::kJob;

constexpr int kSlots = 8;  // workers per host
constexpr auto kHeartbeats = 10s;
constexpr auto kReports = 15s;

struct Ports {
  int grpc = 0;
  int http = 0;
};

/// The coordinator's process. Replies to each '?' on `in` with the CPU seconds it has used, and to
/// each 'm' with the size of its metrics.
[[noreturn]] void serve(int hosts, int in, int out, const std::filesystem::path& state_dir) {
  std::vector<HostSpec> specs;
  for (int i = 0; i < hosts; ++i)
    specs.push_back({.name = "host" + std::to_string(i), .slots = kSlots});
  RendezvousConfig config;
  config.limits.start = 10min;
  {
    std::unique_ptr<Gate> gate;
    if (!state_dir.empty()) gate = std::make_unique<Gate>(GateOptions{.state_dir = state_dir});
    testing::RunningCoordinator coordinator(specs, config, 0, kJob, gate.get(), {}, 100ms);
    std::optional<Pages> pages;
    std::optional<HttpServer> http;
    coordinator.on_loop([&](boost::asio::io_context& loop, Coordinator& its) {
      pages.emplace(loop, its, gate.get(),
                    [&its](const HttpRequest& request) { return serve_page(its, request.path); });
      http.emplace(loop, "127.0.0.1", 0, pages->site());
    });
    const Ports ports{.grpc = coordinator.port(), .http = http->port()};
    if (write(out, &ports, sizeof(ports)) < 0) _exit(1);
    char byte = 0;
    while (read(in, &byte, 1) == 1) {
      if (byte == 'm') {
        const std::size_t bytes = coordinator.metrics().size();
        if (write(out, &bytes, sizeof(bytes)) < 0) break;
        continue;
      }
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      const double used =
          static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
          1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
      if (write(out, &used, sizeof(used)) < 0) break;
    }
    coordinator.on_loop([&](boost::asio::io_context&, Coordinator&) {
      http.reset();
      pages.reset();
    });
  }
  _exit(0);
}

/// Waits until every worker has reported an event.
class Countdown {
 public:
  explicit Countdown(int count) : left_(count) {}
  void one() {
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) done_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int left_;
};

/// A call whose reply arrives later.
template <typename Request, typename Reply>
struct Call {
  grpc::ClientContext context;
  Request request;
  Reply reply;
};

class Worker final : public grpc::ClientBidiReactor<proto::WorkerMessage, proto::WorkerCommand> {
 public:
  Worker(const std::string& address, int rank, const Credential& credential) : rank_(rank) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    own.SetSslTargetNameOverride(kCoordinatorName);
    const auto credentials = credential.secure()
                                 ? grpc::SslCredentials({.pem_root_certs = credential.authority,
                                                         .pem_private_key = credential.key,
                                                         .pem_cert_chain = credential.certificate})
                                 : grpc::InsecureChannelCredentials();
    stub_ =
        proto::CoordinatorService::NewStub(grpc::CreateCustomChannel(address, credentials, own));
  }

  void join(Countdown& joined) {
    join_.request.set_job_id(kJob);
    join_.request.mutable_worker()->set_agent_id("agent" + std::to_string(rank_ / kSlots));
    join_.request.mutable_worker()->set_slot(rank_ % kSlots);
    join_.request.mutable_worker()->set_incarnation(1);
    join_.request.set_timeout_ms(600'000);
    stub_->async()->Join(&join_.context, &join_.request, &join_.reply,
                         [&joined](const grpc::Status& status) { expect(status), joined.one(); });
  }

  void calls_the_roll(int workers, Countdown& answered) {
    set_.request.set_job_id(kJob);
    set_.request.set_generation(1);
    set_.request.set_key("here/" + std::to_string(rank_));
    set_.request.set_value("10.0.0.1");
    stub_->async()->SetValue(&set_.context, &set_.request, &set_.reply, expect);
    get_.request.set_job_id(kJob);
    get_.request.set_generation(1);
    get_.request.set_prefix("here/");
    get_.request.set_count(workers);
    get_.request.set_timeout_ms(600'000);
    stub_->async()->GetValues(
        &get_.context, &get_.request, &get_.reply,
        [&answered](const grpc::Status& status) { expect(status), answered.one(); });
  }

  void attach(Countdown& ended) {
    ended_ = &ended;
    stub_->async()->AttachWorker(&stream_, this);
    message_.set_job_id(kJob);
    message_.set_generation(1);
    message_.set_rank(rank_);
    StartCall();
    StartRead(&command_);
  }
  void beats() {
    if (!writing_.exchange(true)) StartWrite(&message_);
  }
  /// Reports the steps of the last `pause`, at 0.25 s per step.
  void reports(std::chrono::milliseconds pause) {
    if (writing_.exchange(true)) return;
    proto::Progress& told = *message_.mutable_progress();
    const auto steps = static_cast<int>(std::max<std::int64_t>(pause.count() / 250, 1));
    told.set_step(told.step() + steps);
    told.set_total_steps(1'000'000);
    told.set_phase("forward");
    told.set_device("cuda:0");
    told.set_steps(told.steps() + static_cast<std::uint64_t>(steps));
    told.set_samples(told.samples() + 128 * static_cast<std::uint64_t>(steps));
    told.set_step_seconds(told.step_seconds() + 0.25 * steps);
    told.set_own_seconds(told.own_seconds() + 0.2 * steps);
    told.set_loss(3);
    told.clear_phases();
    for (const char* phase : {"data_wait", "images", "forward", "all_gather", "head", "backward",
                              "gradient_wait", "update", "report", "log"}) {
      proto::PhaseSeconds* added = told.add_phases();
      added->set_phase(phase);
      added->set_seconds(0.02 * steps);
      added->set_count(static_cast<std::uint32_t>(steps));
      for (int i = 0; i < 5; ++i) added->add_buckets(0);
      added->add_buckets(static_cast<std::uint32_t>(steps));
    }
    told.clear_comm();
    for (const char* purpose : {"step", "gradients", "inputs", "host"}) {
      proto::CommTotal* comm = told.add_comm();
      comm->set_purpose(purpose);
      comm->set_newest("all_gather");
      comm->set_calls(told.steps() * 2);
      comm->set_done(told.steps() * 2);
      for (const char* kind : {"all_gather", "all_reduce"}) {
        proto::CollectiveTotal* total = comm->add_kinds();
        total->set_kind(kind);
        total->set_calls(told.steps());
        total->set_sent_bytes(told.steps() * 1'000'000);
      }
    }
    told.mutable_gpu()->set_memory_used(60'000'000'000);
    told.mutable_gpu()->set_memory_total(80'000'000'000);
    told.mutable_gpu()->set_utilisation(0.9);
    told.mutable_gpu()->set_temperature_celsius(60);
    told.mutable_gpu()->set_power_watts(600);
    StartWrite(&message_);
  }
  void detach() { stream_.TryCancel(); }

  void OnWriteDone(bool) override { writing_ = false; }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&command_);
  }
  void OnDone(const grpc::Status&) override { ended_->one(); }

 private:
  static void expect(const grpc::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "a call has failed: %s\n", status.error_message().c_str());
    std::exit(1);
  }

  const int rank_;
  std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  Call<proto::JoinRequest, proto::JoinReply> join_;
  Call<proto::SetValueRequest, proto::SetValueReply> set_;
  Call<proto::GetValuesRequest, proto::GetValuesReply> get_;
  grpc::ClientContext stream_;
  proto::WorkerMessage message_;
  proto::WorkerCommand command_;
  std::atomic<bool> writing_{false};
  Countdown* ended_ = nullptr;
};

/// A reader of the page at /: counts the bytes that it receives.
class PageReader {
 public:
  explicit PageReader(int port) : socket_(io_) {
    namespace asio = boost::asio;
    socket_.connect({asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)});
    const std::string request = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    asio::write(socket_, asio::buffer(request));
    thread_ = std::thread([this] {
      std::vector<char> bytes(1 << 20);
      boost::system::error_code error;
      while (!error) bytes_ += socket_.read_some(boost::asio::buffer(bytes), error);
    });
  }
  ~PageReader() {
    boost::system::error_code ignored;
    socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
    thread_.join();
  }
  PageReader(const PageReader&) = delete;
  PageReader& operator=(const PageReader&) = delete;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::atomic<std::uint64_t> bytes_{0};
  std::thread thread_;
};

/// Credentials of the agent and the workers of a host; empty in plaintext.
struct HostCredentials {
  Credential agent;
  Credential worker;
};

HostCredentials credentials_of(const std::string& host, const std::filesystem::path& state_dir) {
  if (state_dir.empty()) return {};
  static const Authority authority(state_dir / "security");
  static TokenStore tokens(state_dir / "security", [] { return 0; });
  const KeyOwner key = make_key();
  const auto exchanged = std::get<TokenStore::Exchange>(
      tokens.exchange(tokens.create({.hosts = {host}}).secret, host, *key, authority));
  return {
      .agent = {.authority = authority.certificate(),
                .certificate = exchanged.issued.certificate,
                .key = to_pem(*key)},
      .worker = authority.make_credential(
          {.role = Role::kWorker, .host = host, .job = kJob, .agent = exchanged.issued.serial})};
}

/// Measures time and the coordinator's CPU seconds, both since the construction of this object.
class Stopwatch {
 public:
  explicit Stopwatch(const std::function<double()>& used)
      : used_(used), start_(Clock::now()), before_(used()) {}
  [[nodiscard]] double seconds() const { return seconds_since(start_); }
  [[nodiscard]] double used() const { return used_() - before_; }
  [[nodiscard]] double cores() const { return used() / seconds(); }

 private:
  const std::function<double()>& used_;
  const TimePoint start_;
  const double before_;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

/// In every period, calls a function once for each worker. The calls are spread over the period.
void each_period(const Workers& all, std::chrono::nanoseconds period, std::chrono::seconds time,
                 const std::function<void(Worker&)>& call) {
  const TimePoint begin = Clock::now();
  for (TimePoint start = begin; start < begin + time; start += period) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      call(*all[rank]);
      if (rank % 16 == 0) std::this_thread::sleep_until(start + period * rank / all.size());
    }
  }
}

void report_for(const Workers& all, std::chrono::seconds time) {
  const auto pause = report_pause(static_cast<int>(all.size()));
  each_period(all, pause, time, [&](Worker& worker) { worker.reports(pause); });
}

/// `http_port`: 0 over TLS, where the page is not read. `used`: returns the coordinator's CPU
/// seconds. `metrics`: makes the coordinator generate its metrics, and returns their size.
void measure(int workers, const std::string& address, int http_port,
             const std::filesystem::path& state_dir, const std::function<double()>& used,
             const std::function<std::size_t()>& metrics) {
  std::vector<std::unique_ptr<testing::VoiceOfAgent>> agents;
  Workers all;
  for (int number = 0; number < workers / kSlots; ++number) {
    const std::string host = "host" + std::to_string(number);
    const HostCredentials credentials = credentials_of(host, state_dir);
    agents.push_back(std::make_unique<testing::VoiceOfAgent>(
        address, host, "agent" + std::to_string(number), version(), credentials.agent));
    for (int slot = 0; slot < kSlots; ++slot) {
      all.push_back(std::make_unique<Worker>(address, number * kSlots + slot, credentials.worker));
    }
  }
  for (const auto& agent : agents) agent->is_told_workers();

  const Stopwatch join(used);
  Countdown joined(workers);
  for (const auto& worker : all) worker->join(joined);
  joined.wait();
  std::printf("%8d %10.2f %10.2f", workers, join.seconds(), join.used());

  const Stopwatch roll(used);
  Countdown answered(workers);
  for (const auto& worker : all) worker->calls_the_roll(workers, answered);
  answered.wait();
  std::printf(" %10.2f %10.2f", roll.seconds(), roll.used());

  Countdown ended(workers);
  for (const auto& worker : all) worker->attach(ended);
  for (const auto& worker : all) worker->beats();
  std::this_thread::sleep_for(2s);
  const Stopwatch beats(used);
  each_period(all, 1s, kHeartbeats, [](Worker& worker) { worker.beats(); });
  std::printf(" %12.3f", beats.cores());
  const Stopwatch idle(used);
  std::this_thread::sleep_for(5s);
  std::printf(" %12.3f", idle.cores());

  report_for(all, 3s);
  const Stopwatch reporting(used);
  report_for(all, kReports);
  std::printf(" %12.3f", reporting.cores());
  double looked_at = 0;
  std::uint64_t sent = 0;
  if (http_port != 0) {
    const PageReader reader(http_port);
    const Stopwatch reading(used);
    report_for(all, kReports);
    looked_at = reading.cores();
    sent = reader.bytes() / static_cast<std::uint64_t>(kReports.count());
  }
  const Stopwatch of_metrics(used);
  const std::size_t page = metrics();
  std::printf(" %12.3f %8llu %10zu %10.3f\n", looked_at,
              static_cast<unsigned long long>(sent >> 10), page >> 10, of_metrics.used());
  std::fflush(stdout);
  for (const auto& worker : all) worker->detach();
  ended.wait();
}

/// Measures in a separate process, so that the next measurement starts without leftovers.
void measure_in_processes(int workers, bool tls) {
  const TemporaryFolder folder;
  const std::filesystem::path state_dir = tls ? folder / "state" : std::filesystem::path();
  int to[2], from[2];
  if (pipe(to) != 0 || pipe(from) != 0) std::exit(1);
  const pid_t server = fork();
  if (server == 0) {
    close(to[1]);
    serve(workers / kSlots, to[0], from[1], state_dir);
  }
  close(to[0]);
  const pid_t clients = fork();
  if (clients == 0) {
    Ports ports;
    if (read(from[0], &ports, sizeof(ports)) != sizeof(ports)) _exit(1);
    const auto ask = [&]<typename Answer>(const char* question, Answer answer) {
      if (write(to[1], question, 1) != 1 || read(from[0], &answer, sizeof(answer)) < 0) _exit(1);
      return answer;
    };
    measure(
        workers, "127.0.0.1:" + std::to_string(ports.grpc), tls ? 0 : ports.http, state_dir,
        [&] { return ask("?", 0.0); }, [&] { return ask("m", std::size_t{0}); });
    _exit(0);
  }
  close(to[1]);
  waitpid(clients, nullptr, 0);
  waitpid(server, nullptr, 0);
  close(from[0]);
  close(from[1]);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  pfc::raise_descriptor_limit();
  pfc::set_up_grpc();
  std::vector<int> sizes{512, 1'024, 2'048, 4'096, 10'000};
  const bool tls = argc > 1 && std::string_view(argv[1]) == "tls";
  const int first = tls ? 2 : 1;
  if (argc > first) sizes.clear();
  for (int i = first; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  std::printf("%8s %10s %10s %10s %10s %12s %12s %12s %12s %8s %10s %10s\n", "workers", "join s",
              "its cpu s", "roll s", "its cpu s", "beats, cores", "idle, cores", "train, cores",
              "+ /, cores", "KiB/s", "page, KiB", "its cpu s");
  std::fflush(stdout);
  for (const int workers : sizes) pfc::measure_in_processes(workers, tls);
}
