// pfcctl trace: records where the workers of a running job spend time (docs/trace.md).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>

#include "common/command_line.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/files/atomic_file.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/trace/collected_trace.h"
#include "pfcctl/trace/trace_analysis.h"
#include "pfcctl/trace/trace_json.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using Stub = proto::CoordinatorService::Stub;

struct TraceOptions {
  Target target;
  int steps = 20;
  std::filesystem::path output = "trace.json";
};

void tell_progress(const proto::ReadTraceReply& reply, const CollectedTrace& trace) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::cerr << "\r\033[Kstep " << reply.step() << " of " << trace.last_step << ", waiting for "
            << counted(reply.missing_size(), "rank") << std::flush;
}

void clear_progress() {
  if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\033[K" << std::flush;
}

/// Collects all parts. If the coordinator ends early, keeps the parts received so far.
CollectedTrace collect(const CoordinatorCall& call, const proto::StartTraceReply& begun) {
  TraceCollector collector(begun);
  proto::ReadTraceRequest request;
  request.set_trace(begun.trace());
  try {
    while (true) {
      const proto::ReadTraceReply reply = call(&Stub::ReadTrace, request);
      for (const proto::TraceChunk& part : reply.parts()) collector.add(part);
      request.set_from(request.from() + reply.parts_size());
      for (const proto::RankTrace& rank : reply.ranks()) collector.add(rank);
      if (reply.over()) break;
      tell_progress(reply, collector.trace());
    }
  } catch (const std::runtime_error& error) {
    collector.end_early(error.what());
  }
  clear_progress();
  return collector.trace();
}

void write(const CollectedTrace& trace, const std::vector<MatchedCollective>& collectives,
           const std::filesystem::path& path) {
  AtomicFile file(path);
  write_trace_json(trace, collectives,
                   [&](std::string_view text) { file.write(std::as_bytes(std::span(text))); });
  file.commit();
}

void take(const TraceOptions& options) {
  { const AtomicFile probe(options.output); }  // fails before the recording, which takes time
  const CoordinatorCall call(options.target.endpoint());
  proto::StartTraceRequest request;
  request.set_steps(options.steps);
  const proto::StartTraceReply begun = call(&Stub::StartTrace, request);
  std::cout << "recording steps " << begun.first_step() << " to " << begun.last_step() << " of job "
            << begun.job_id() << ", " << counted(begun.workers(), "worker") << std::endl;
  const CollectedTrace trace = collect(call, begun);
  const std::vector<MatchedCollective> collectives = match_collectives(trace);
  const TraceAnalysis analysis = analyse(trace, collectives);
  write(trace, collectives, options.output);
  std::cout << options.output.string() << ": " << to_text(trace, analysis) << std::flush;
  if (!trace.complete()) throw ExitStatus{kExitFailed};
}

}  // namespace

void add_trace_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "trace", "Records some steps of all workers, and shows which worker the others waited for");
  const auto options = std::make_shared<TraceOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_option("--steps", options->steps, "Number of steps")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  verb->add_option("--output", options->output,
                   "Output file, for https://ui.perfetto.dev or chrome://tracing")
      ->capture_default_str();
  verb->footer(
      "The job keeps running; recording starts shortly. In the table, wait is the median time\n"
      "that a worker spends in a collective before the last worker enters it. Exit code 1: the\n"
      "parts of some workers are missing; the others are in the file. docs/trace.md explains\n"
      "the rows. Example:\n"
      "  pfcctl trace --steps 10 --output trace.json");
  verb->callback([options] { take(*options); });
}

}  // namespace pfc
