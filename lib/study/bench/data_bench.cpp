#include "study/bench/data_bench.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/pipeline.hpp"
#include "launch/process/isolated_process.hpp"
#include "study/bench/trials.hpp"

#include <fmt/format.h>

namespace trainctl::study {
namespace {

using WorkerCount = config::Auto<int>;

struct LimitTrials {
  std::string name;
  bool per_thread = true;
  std::vector<double> samples_per_s;  // of one thread
};

WorkerCount worker_count(const std::string& text) {
  constexpr int kMostWorkers = 256;
  if (text == "auto") return {};
  const auto count = parse_number<int>(text);
  ENSURE(config, count && *count >= 0 && *count <= kMostWorkers,
         "--workers: '{}' must be auto or a number from 0 to {}", printable(text), kMostWorkers);
  return {*count};
}

std::vector<WorkerCount> worker_counts(const std::string& list, const WorkerCount& configured) {
  if (list.empty()) return {configured};
  std::vector<WorkerCount> counts;
  for (const std::string& text : parse_axis("loader.num_workers", list).values)
    counts.push_back(worker_count(text));
  return counts;
}

data::LoadingChoice choose(const spec::Experiment& experiment, const WorkerCount& workers,
                           const data::LoaderOptions& options) {
  spec::Loader requested = experiment.loader;
  requested.num_workers = workers;
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const auto choice = choose_for_reading(requested, open_train_pipeline(experiment), options);
    return to_line(Json{{"workers", choice.num_workers},
                        {"prefetch_factor", choice.prefetch_factor},
                        {"why", choice.why}});
  });
  const Json choice = Json::parse(result.text);
  return {choice["workers"], choice["prefetch_factor"], choice["why"]};
}

report::LoaderTrial measure(const spec::Experiment& experiment, const data::LoaderOptions& options,
                            const data::MeasureLength& length,
                            std::vector<data::SkippedSample>& skipped) {
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const auto figures =
        data::measure_loader(open_train_pipeline(experiment), options, length, steady_clock());
    Json damaged = Json::array();
    for (const data::SkippedSample& one : figures.skipped)
      damaged.push_back({one.name, one.reason});
    return to_line(Json{{"samples_per_s", figures.samples_per_s},
                        {"cpu_s_per_1k", figures.cpu_s_per_1k},
                        {"p50_ms", figures.p50_ms},
                        {"p99_ms", figures.p99_ms},
                        {"digest", to_hex(figures.digest)},
                        {"skipped", damaged}});
  });
  const Json figures = Json::parse(result.text);
  skipped.clear();
  for (const Json& one : figures["skipped"]) skipped.push_back({one[0], one[1]});
  return {.samples_per_s = figures["samples_per_s"],
          .cpu_s_per_1k = figures["cpu_s_per_1k"],
          .p50_ms = figures["p50_ms"],
          .p99_ms = figures["p99_ms"],
          .rss_mb = static_cast<double>(result.peak_rss_bytes) / 1e6,
          .digest = figures["digest"]};
}

void measure_throughput_limit(const spec::Experiment& experiment,
                              const data::LoaderOptions& options, LimitTrials& trials) {
  constexpr double kSeconds = 1;
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const data::ThroughputLimit limit = data::measure_throughput_limit(
        open_train_pipeline(experiment), options, kSeconds, steady_clock());
    return to_line(Json{{"name", limit.name},
                        {"samples_per_s", limit.samples_per_s},
                        {"per_thread", limit.per_thread}});
  });
  const Json limit = Json::parse(result.text);
  trials.name = limit["name"];
  trials.per_thread = limit["per_thread"];
  trials.samples_per_s.push_back(limit["samples_per_s"]);
}

int threads_at_once(int workers, bool per_thread) {
  return per_thread ? std::clamp(workers, 1, std::max(1, usable_cores())) : 1;
}

}  // namespace

data::Pipeline open_train_pipeline(const spec::Experiment& experiment) {
  data::CacheBudget cache(experiment.dataset.cache, 1);
  return data::with_cache(data::build_pipeline(experiment.dataset.train), cache);
}

data::LoadingChoice choose_for_reading(const spec::Loader& requested,
                                       const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options) {
  // No training uses these cores, and no kernels are launched from them.
  const data::LoadingLimits limits{.cores = usable_cores(), .training_uses_cores = true};
  return data::decide_loading(requested, pipeline, options, limits, /*step_s=*/0, steady_clock());
}

DataBenchResult bench_loader(const spec::Experiment& experiment, const DataBenchOptions& options,
                             const PrintLine& print) {
  data::LoaderOptions loader = data::loader_options(experiment, data::Role::train, {});
  loader.priority = data::Priority::normal;  // no training competes for the cores
  DataBenchResult result;
  std::vector<report::LoaderRow>& rows = result.bench.rows;
  std::vector<int> prefetch;
  for (const WorkerCount& workers : worker_counts(options.workers, experiment.loader.num_workers)) {
    const data::LoadingChoice choice = choose(experiment, workers, loader);
    rows.push_back({choice.num_workers, {}, 0, workers.is_auto() ? choice.why : ""});
    prefetch.push_back(choice.prefetch_factor);
  }
  LimitTrials limit;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      loader.num_workers = rows[i].workers;
      loader.prefetch_factor = prefetch[i];
      rows[i].trials.push_back(measure(experiment, loader, options.length, result.skipped));
      print(fmt::format("round {} of {}  workers={}  {} samples/s", repeat + 1, options.repeats,
                        rows[i].workers, report::rate_text(rows[i].trials.back().samples_per_s)));
    }
    measure_throughput_limit(experiment, loader, limit);
  }
  result.bench.limit_name = limit.name;
  for (report::LoaderRow& row : rows)
    row.limit_samples_per_s =
        median(limit.samples_per_s) * threads_at_once(row.workers, limit.per_thread);
  return result;
}

}  // namespace trainctl::study
