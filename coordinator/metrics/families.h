// Common parts of all metrics. Names and units follow the conventions of Prometheus
// (https://prometheus.io/docs/practices/naming/): base units, counters that end in _total instead
// of rates, timestamps instead of ages.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <set>
#include <string>

#include "common/clock.h"

namespace pfc::metrics {

using prometheus::Labels;
using prometheus::Registry;
using CounterFamily = prometheus::Family<prometheus::Counter>;
using GaugeFamily = prometheus::Family<prometheus::Gauge>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;

inline GaugeFamily& gauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
inline CounterFamily& counter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
inline HistogramFamily& histogram(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

/// Returns the increase of a counter for a new total. A restarted worker begins again at 0.
template <typename Number>
double increase(Number before, Number after) {
  return static_cast<double>(after >= before ? after - before : after);
}

/// Returns seconds since 1970.
inline double unix_seconds(WallTime time) { return static_cast<double>(to_ms(time)) / 1000; }
/// Converts a time of the steady clock.
inline double unix_seconds(TimePoint time, TimePoint now, WallTime wall) {
  return unix_seconds(wall) - seconds_since(time, now);
}

/// Limits the values of a label, because each one is a time series. Values beyond `most`, which no
/// pfc-worker has, become "other".
class LabelValues {
 public:
  explicit LabelValues(std::size_t most) : most_(most) {}
  const std::string& operator()(const std::string& value) {
    if (known_.size() < most_) return *known_.insert(value).first;
    const auto found = known_.find(value);
    return found == known_.end() ? other_ : *found;
  }

 private:
  const std::size_t most_;
  const std::string other_ = "other";
  std::set<std::string> known_;
};

}  // namespace pfc::metrics
