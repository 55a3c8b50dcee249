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

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

/// A row of a table of metrics: a family, with its name and help, and where its value comes from.
template <typename Family, typename... Sources>
struct Metric {
  Family& family;
  std::optional<double> (*value)(const Sources&...);  ///< empty: unknown
};

/// Reads the value of a row from one member function: field<&proto::Progress::step>.
template <auto Member, typename Source>
std::optional<double> field(const Source& source) {
  return (source.*Member)();
}

/// Returns the family of the table with this name; nullptr if there is none.
template <typename Family, typename... Sources>
Family* find_family(const std::vector<Metric<Family, Sources...>>& table, const std::string& name) {
  const auto row =
      std::ranges::find(table, name, [](const auto& each) { return each.family.GetName(); });
  return row == table.end() ? nullptr : &row->family;
}

/// Returns the increase of a counter whose total was `before` and is now `after`. If the total has
/// fallen, the worker was restarted and counts from 0.
template <typename Number>
double increase(Number before, Number after) {
  return static_cast<double>(after >= before ? after - before : after);
}

/// Returns seconds since 1970.
inline double unix_seconds(WallTime time) { return static_cast<double>(to_ms(time)) / 1000; }

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
