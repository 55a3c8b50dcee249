#include "agent/network/network_probe.h"

#include <mutex>
#include <optional>
#include <utility>

#include "common/error_text.h"

namespace pfc {

struct NetworkProbe::Reported {
  std::mutex mutex;
  std::optional<proto::NetworkReport> report;  // guarded by mutex; empty: the step is not finished
};

void NetworkProbe::step(const proto::NetworkStep& step) {
  if (step.measurement() != measurement_) end();
  if (step.number() == 0) return end();
  const bool again = step.measurement() == measurement_ && step.number() == number_;
  if (!again) return begin(step);
  const std::lock_guard lock(reported_->mutex);
  if (reported_->report) report_(*reported_->report);
}

void NetworkProbe::begin(const proto::NetworkStep& step) {
  measurement_ = step.measurement();
  number_ = step.number();
  tests_.reset();
  reported_ = std::make_shared<Reported>();
  proto::NetworkReport report;
  report.set_measurement(measurement_);
  report.set_number(number_);
  const auto tell = [reported = reported_, told = report_](proto::NetworkReport done) {
    const std::lock_guard lock(reported->mutex);
    reported->report = std::move(done);
    told(*reported->report);
  };
  try {
    if (!listener_) listener_ = std::make_unique<ProbeListener>(step.secret(), step.host());
    report.set_port(listener_->port());
    tests_ = std::make_unique<NetworkTests>(
        step.secret(), step, [tell, report](std::vector<proto::NetworkResult> results) mutable {
          for (proto::NetworkResult& result : results) *report.add_results() = std::move(result);
          tell(std::move(report));
        });
  } catch (const std::exception& error) {  // no descriptor, port or thread available
    report.set_problem(text_of(error));
    tell(std::move(report));
  }
}

void NetworkProbe::end() {
  tests_.reset();
  listener_.reset();
  measurement_.clear();
  number_ = 0;
}

}  // namespace pfc
