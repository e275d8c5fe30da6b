#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "cli/shared_options.hpp"
#include "cli/skipped_samples.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/measurements.hpp"
#include "launch/process/isolated_process.hpp"
#include "report/compare/data_bench.hpp"
#include "study/bench/parameter_grid.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

constexpr int kMostWorkers = 256;

struct BenchArguments {
  ConfigArguments config;
  std::string workers;
  int repeats = 5;
  data::MeasureLength length;
};

struct LimitTrials {
  std::string name;
  bool per_thread = true;
  std::vector<double> samples_per_s;  // of one thread
};

int worker_count(const std::string& text) {
  const auto count = parse_number<int>(text);
  ENSURE(config, count && *count >= 0 && *count <= kMostWorkers,
         "--workers: '{}' is no number of threads from 0 to {}, nor auto", printable(text),
         kMostWorkers);
  return *count;
}

std::vector<config::Auto<int>> worker_counts(const std::string& list,
                                             const config::Auto<int>& configured) {
  if (list.empty()) return {configured};
  std::vector<config::Auto<int>> counts;
  for (const std::string& text : study::parse_axis("loader.num_workers", list).values)
    counts.push_back(text == "auto" ? config::Auto<int>() : config::Auto<int>{worker_count(text)});
  return counts;
}

// With its cache, as a run loads it.
data::Pipeline open_pipeline(const spec::Experiment& experiment) {
  const spec::DataSplit& split = experiment.dataset.train;
  data::CacheBudget cache(experiment.dataset.cache, 1);
  return data::with_cache(data::build_pipeline(split), cache);
}

data::LoadingChoice choose(const spec::Experiment& experiment, const config::Auto<int>& workers,
                           const data::LoaderOptions& options) {
  spec::Loader requested = experiment.loader;
  requested.num_workers = workers;
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const auto choice = choose_for_reading(requested, open_pipeline(experiment), options);
    return to_line(Json{{"workers", choice.num_workers},
                        {"prefetch_factor", choice.prefetch_factor},
                        {"why", choice.why}});
  });
  const Json choice = Json::parse(result.text);
  return {choice["workers"], choice["prefetch_factor"], choice["why"]};
}

Json skipped_as_json(const std::vector<data::SkippedSample>& skipped) {
  Json list = Json::array();
  for (const data::SkippedSample& one : skipped) list.push_back({one.name, one.reason});
  return list;
}

/// `skipped`: the damaged samples that it met.
report::LoaderTrial measure(const spec::Experiment& experiment, const data::LoaderOptions& options,
                            const data::MeasureLength& length,
                            std::vector<data::SkippedSample>& skipped) {
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const auto figures =
        data::measure_loader(open_pipeline(experiment), options, length, steady_clock());
    return to_line(Json{{"samples_per_s", figures.samples_per_s},
                        {"cpu_s_per_1k", figures.cpu_s_per_1k},
                        {"p50_ms", figures.p50_ms},
                        {"p99_ms", figures.p99_ms},
                        {"digest", to_hex(figures.digest)},
                        {"skipped", skipped_as_json(figures.skipped)}});
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

void measure_limit(const spec::Experiment& experiment, const data::LoaderOptions& options,
                   LimitTrials& trials) {
  constexpr double kSeconds = 1;
  const launch::IsolatedResult result = launch::run_isolated([&] {
    const data::Limit limit =
        data::measure_limit(open_pipeline(experiment), options, kSeconds, steady_clock());
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

report::DataBench run_rounds(const BenchArguments& arguments, const spec::Experiment& experiment,
                             Context& context, std::vector<data::SkippedSample>& skipped) {
  data::LoaderOptions options = data::loader_options(experiment, data::Role::train, {});
  options.priority = data::Priority::normal;  // nothing trains here
  report::DataBench bench{.config = arguments.config.file};
  std::vector<int> prefetch;
  for (const auto& workers : worker_counts(arguments.workers, experiment.loader.num_workers)) {
    const data::LoadingChoice choice = choose(experiment, workers, options);
    bench.rows.push_back({choice.num_workers, {}, 0, workers.is_auto() ? choice.why : ""});
    prefetch.push_back(choice.prefetch_factor);
  }
  LimitTrials limit;
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    for (std::size_t i = 0; i < bench.rows.size(); ++i) {
      report::LoaderRow& row = bench.rows[i];
      options.num_workers = row.workers;
      options.prefetch_factor = prefetch[i];
      row.trials.push_back(measure(experiment, options, arguments.length, skipped));
      if (progress_for(context) == report::ProgressMode::none) continue;
      writer_for(stderr)(fmt::format("round {} of {}  workers={}  {} samples/s\n", repeat + 1,
                                     arguments.repeats, row.workers,
                                     report::rate_text(row.trials.back().samples_per_s)));
    }
    measure_limit(experiment, options, limit);
  }
  bench.limit_name = limit.name;
  for (report::LoaderRow& row : bench.rows)
    row.limit_samples_per_s =
        median(limit.samples_per_s) * threads_at_once(row.workers, limit.per_thread);
  return bench;
}

int data_bench(const BenchArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::loading);
  print_warnings(context);
  std::vector<data::SkippedSample> skipped;
  const report::DataBench bench = run_rounds(arguments, loaded.experiment, context, skipped);
  if (context.json) {
    Json document = report::data_bench_document(bench);
    document["skipped"] = skipped_json(skipped);
    print_json(document);
  } else {
    writer_for(stdout)(
        report::to_text(report::data_bench_table(bench), style_for(context, stdout)) +
        (context.quiet ? "" : report::data_bench_notes(bench)));
  }
  tell_skipped(context, skipped, "replaced by others");
  return 0;
}

}  // namespace

void add_data_bench(CLI::App& data, Context& context) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App& verb =
      add_verb(data, context,
               {"bench", "samples a second of the loader alone, beside its limit", kConfigGroup},
               [arguments, &context] { return data_bench(*arguments, context); });
  add_config_arguments(verb, arguments->config, context, Builtin::photographs);
  verb.add_option("--workers", arguments->workers,
                  "loader threads to compare: 0,2,auto (default: loader.num_workers)")
      ->type_name("LIST");
  verb.add_option("--repeats", arguments->repeats,
                  "measurements of each setting, in fresh processes")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* seconds =
      verb.add_option("--seconds", arguments->length.seconds, "length of a measurement")
          ->check(CLI::Range(0.01, 86400.0).description(""))
          ->type_name("S")
          ->capture_default_str();
  verb.add_option("--epochs", arguments->length.epochs, "length of a measurement in epochs instead")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("E")
      ->excludes(seconds);
}

}  // namespace trainctl::app
