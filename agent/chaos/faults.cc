#include "agent/chaos/faults.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/log.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForTheAnswer{200};
// Duration of a trial partition. It ends after this time even if this process is stopped (SIGSTOP).
constexpr milliseconds kPartitionProbeTime{1'000};

milliseconds time_of(const proto::Fault& fault) {
  return std::clamp<milliseconds>(milliseconds{fault.lasts_ms()}, milliseconds{0}, kLongestFault);
}

}  // namespace

Faults::Faults(boost::asio::io_context& loop, Options options)
    : loop_(loop), options_(std::move(options)) {
  if (options_.allowed) CutRoutes::remove_all();
}

Faults::~Faults() { undo(); }

std::string Faults::obstacle(const proto::Fault& fault) const {
  if (!options_.allowed) {
    return "its agent does not allow faults; start it with pfc-agent --allow-chaos, or the "
           "coordinator's own agent with pfc-coordinator --allow-chaos";
  }
  switch (fault.kind()) {
    case proto::FAULT_UNDO:
    case proto::FAULT_KILL_AGENT:
      return {};
    case proto::FAULT_KILL_WORKER:
    case proto::FAULT_STOP_WORKER:
      return fault.only_ask() || options_.worker(fault.slot(), fault.incarnation())
                 ? ""
                 : "this worker no longer runs in slot " + std::to_string(fault.slot());
    case proto::FAULT_PARTITION:
      if (partition_ || will_cut_) return "this host is cut off already";
      if (CutRoutes({fault.addresses().begin(), fault.addresses().end()}).count() == 0) {
        return "the job has no other host from which this one could be cut off";
      }
      return CutRoutes::obstacle();
    default:
      return "its agent does not know this kind of fault";
  }
}

/// Tries the partition for a moment, because a host that is cut off from the coordinator could not
/// report a failure.
std::string Faults::try_to_cut(const proto::Fault& fault) {
  try {
    const Partition attempt({fault.addresses().begin(), fault.addresses().end()},
                            kPartitionProbeTime);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

void Faults::begin(const proto::Fault& fault, const Answer& answer) {
  std::string problem = obstacle(fault);
  if (problem.empty() && fault.kind() == proto::FAULT_PARTITION && !fault.only_ask()) {
    problem = try_to_cut(fault);
  }
  const bool is_wanted = problem.empty() && !fault.only_ask();
  answer(problem);
  if (is_wanted) act(fault);
}

void Faults::act(const proto::Fault& fault) {
  const auto worker = options_.worker(fault.slot(), fault.incarnation());
  switch (fault.kind()) {
    case proto::FAULT_KILL_WORKER:
      return worker->send(SIGKILL);
    case proto::FAULT_STOP_WORKER:
      return stop_worker(worker, time_of(fault));
    case proto::FAULT_PARTITION:
      will_cut_ = true;
      return after(kForTheAnswer, [this, fault] { cut_off(fault); });
    case proto::FAULT_KILL_AGENT:
      return after(kForTheAnswer, options_.die);
    default:
      return undo();
  }
}

void Faults::stop_worker(const std::shared_ptr<WorkerProcess>& worker, milliseconds lasts) {
  const std::int64_t number = ++last_;
  stopped_[number] = worker;
  worker->send(SIGSTOP);
  after(lasts, [this, number] {
    const auto still = stopped_[number].lock();
    stopped_.erase(number);
    const bool stopped_again = std::ranges::any_of(
        stopped_, [&still](const auto& other) { return other.second.lock() == still; });
    if (still && !stopped_again) still->send(SIGCONT);
  });
}

void Faults::cut_off(const proto::Fault& fault) {
  will_cut_ = false;
  try {
    const std::vector<std::string> addresses(fault.addresses().begin(), fault.addresses().end());
    partition_.emplace(addresses, time_of(fault));
    after(time_of(fault), [this] { partition_.reset(); });
  } catch (const std::runtime_error& error) {
    print_message("pfc-agent", Severity::kWarning,
                  std::string("the host is not cut off: ") + error.what());
  }
}

void Faults::undo() {
  timers_.clear();
  will_cut_ = false;
  partition_.reset();
  for (const auto& [number, worker] : stopped_) {
    if (const auto still = worker.lock()) still->send(SIGCONT);
  }
  stopped_.clear();
}

void Faults::after(milliseconds delay, std::function<void()> then) {
  const std::int64_t number = ++last_;
  const auto timer = timers_.try_emplace(number, loop_, delay).first;
  timer->second.async_wait(
      [this, number, then = std::move(then)](const boost::system::error_code& error) {
        // If undo() erases a timer that has just expired, the handler is still called, without an
        // error.
        if (!error && timers_.erase(number) > 0) then();
      });
}

}  // namespace pfc
