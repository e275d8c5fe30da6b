#include "report/bench.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "config_arguments.hpp"
#include "console.hpp"
#include "context.hpp"
#include "report/scaling.hpp"
#include "run_request.hpp"
#include "study/bench.hpp"
#include "study/run.hpp"
#include "study/scaling.hpp"
#include "study/trial.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::app {
namespace {

struct AxisFlag {
  const char* flag;
  const char* key;
  const char* help;
  const char* place;
};

// The first one given is the outermost axis of the table, whatever the order on the command line.
constexpr std::array kAxes{
    AxisFlag{"--workers", "loader.num_workers", "loader threads to compare: 0,4,8", "LIST"},
    AxisFlag{"--devices", "trainer.devices", "device counts to compare: 1,2", "LIST"},
    AxisFlag{"--batch-size", "loader.batch_size", "batch sizes per device to compare: 64,128",
             "LIST"},
    AxisFlag{"--precision", "trainer.precision", "precisions to compare", "LIST"},
    AxisFlag{"--pin-memory", "loader.pin_memory", "page-locked batches to compare: true,false",
             "LIST"},
};

struct BenchFlags {
  ConfigArguments config;
  std::array<std::string, kAxes.size()> lists;
  std::vector<std::string> grid;
  int repeats = 5;
  std::string out = "runs";
  bool markdown = false;
  std::string save;
  std::string scaling;  // "strong", "weak"; empty: weak, where devices are compared
};

std::vector<study::Setting> settings_of(const BenchFlags& flags) {
  std::vector<study::Axis> axes;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (!flags.lists[i].empty()) axes.push_back(study::parse_axis(kAxes[i].key, flags.lists[i]));
  }
  for (const std::string& text : flags.grid) axes.push_back(study::parse_grid(text));
  return study::product(axes);
}

using Overrides = std::vector<std::string>;

report::Scaling mode_of(const BenchFlags& flags) {
  return flags.scaling == "strong" ? report::Scaling::strong : report::Scaling::weak;
}

study::RunRequest request_for(const BenchFlags& flags, const Overrides& added, Context& context) {
  ConfigArguments config = flags.config;
  config.overrides.insert(config.overrides.end(), added.begin(), added.end());
  study::RunRequest request = request_of(load_checked(config, context), config, context);
  request.folder.root = fs::path(flags.out) / "bench";
  return request;
}

// The batch of one device in the file, with the overrides of the setting.
std::int64_t batch_of(const BenchFlags& flags, const study::Setting& setting, Context& context) {
  ConfigArguments config = flags.config;
  const Overrides added = setting.overrides();
  config.overrides.insert(config.overrides.end(), added.begin(), added.end());
  const spec::Loaded loaded = load_config(config, context);
  context.diagnostics.throw_if_errors();
  context.diagnostics = {};  // check_all() tells its warnings
  ENSURE(config, !loaded.experiment.loader.batch_size.automatic,
         "--scaling strong divides loader.batch_size, which is auto: add a number, as in "
         "loader.batch_size=64");
  return loaded.experiment.loader.batch_size;
}

void scale(const BenchFlags& flags, std::vector<study::Setting>& settings, Context& context) {
  if (flags.scaling.empty()) return;
  ENSURE(config, study::devices_of(settings.front()).has_value(),
         "--scaling compares numbers of devices: add them, as in --devices 1,2");
  if (mode_of(flags) == report::Scaling::weak) return;
  study::keep_global_batch(
      settings, [&](const study::Setting& setting) { return batch_of(flags, setting, context); });
}

// Every setting is read and checked before the first process starts.
std::vector<study::RunRequest> check_all(const BenchFlags& flags,
                                         const std::vector<study::Setting>& settings,
                                         Context& context) {
  std::vector<study::RunRequest> requests;
  for (const study::Setting& setting : settings)
    requests.push_back(request_for(flags, setting.overrides(), context));
  print_warnings(context);
  return requests;
}

void print_table(const std::vector<report::BenchRow>& rows, const BenchFlags& flags,
                 const Context& context) {
  const report::Table table = report::bench_table(rows);
  const std::string notes = context.quiet ? "" : report::bench_notes(rows);
  const report::Write out = writer_for(stdout);
  const report::Style style = style_for(context, stdout);
  const auto show = [&](const report::Table& shown, const std::string& below) {
    out(flags.markdown ? report::to_markdown(shown) + (below.empty() ? "" : "\n" + below)
                       : report::to_text(shown, style) + below);
  };
  show(table, notes);
  const report::Scaling mode = mode_of(flags);
  const std::vector<report::ScalingRow> scaling = report::scaling_rows(rows, mode);
  if (scaling.empty()) return;
  out("\n");
  show(report::scaling_table(rows, scaling),
       context.quiet ? "" : report::scaling_notes(scaling, mode));
}

bool chooses_threads(const study::RunRequest& request) {
  return request.loaded.experiment.trainer.num_threads.is_auto();
}

void say(const Context& context, const std::string& line) {
  if (progress_for(context) != report::ProgressMode::none) writer_for(stderr)(line + "\n");
}

int devices_in(const study::RunRequest& request) {
  return request.loaded.experiment.trainer.devices.value_or(1);
}

std::string threads_line(int threads, int devices, bool differs) {
  return fmt::format(
      "warm-up  {} CPU thread{} a process in every run{}", threads, threads == 1 ? "" : "s",
      differs ? fmt::format(" on {} device{}", devices, devices == 1 ? "" : "s") : std::string());
}

std::string no_threads_line(int devices) {
  return fmt::format(
      "warm-up  failed on {} device{}: runs on so many choose their CPU threads themselves",
      devices, devices == 1 ? "" : "s");
}

// Left to itself every run measures how many threads are best, and may find another number than the
// row it is compared with: one run of one batch decides for all that share the cores alike. Where
// that run fails, those of its rows will tell why.
study::WarmUp pin_threads(const BenchFlags& flags, const std::vector<study::Setting>& settings,
                          std::vector<study::RunRequest>& requests, Context& context) {
  study::WarmUp first;
  std::map<int, std::optional<int>> found;  // by the number of devices
  std::set<int> failed;
  for (const study::RunRequest& request : requests) {
    if (chooses_threads(request)) found[devices_in(request)];
  }
  const bool differs = found.size() > 1;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const int devices = devices_in(requests[i]);
    if (!chooses_threads(requests[i]) || failed.contains(devices)) continue;
    Overrides added = settings[i].overrides();
    if (!found[devices]) {
      added.emplace_back("trainer.fast_dev_run=true");
      const study::WarmUp tried =
          study::warm_up(request_for(flags, added, context), steady_clock());
      if (tried.stopped) return tried;
      if (!tried.threads) {
        failed.insert(devices);
        say(context, no_threads_line(devices));
        continue;
      }
      found[devices] = tried.threads;
      if (!first.threads) first = tried;
      say(context, threads_line(*tried.threads, devices, differs));
      added.pop_back();
    }
    added.push_back(fmt::format("trainer.num_threads={}", *found[devices]));
    requests[i] = request_for(flags, added, context);
  }
  return first;
}

study::RunTrial trial_runner(const BenchFlags& flags, const std::vector<study::Setting>& settings,
                             const std::vector<study::RunRequest>& requests,
                             const Context& context) {
  const std::size_t runs = settings.size() * static_cast<std::size_t>(flags.repeats);
  return [&, runs, done = std::size_t{0}](std::size_t setting, int /*repeat*/) mutable {
    const study::TrialResult result = study::run_trial(requests[setting], steady_clock());
    const auto* trial = std::get_if<report::Trial>(&result);
    say(context,
        fmt::format("run {} of {}  {}  {}", ++done, runs, printable(settings[setting].technique),
                    trial != nullptr ? human_duration(trial->total_s) : "failed"));
    return result;
  };
}

void print_rows(const std::vector<report::BenchRow>& rows, const Json& document,
                const BenchFlags& flags, const Context& context) {
  if (context.json) {
    print_json(document);
  } else {
    print_table(rows, flags, context);
  }
  for (const report::BenchRow& row : rows) {
    if (row.failure)
      writer_for(stderr)(fmt::format("error: {}\n", printable(row.failure->message)));
  }
}

std::string one_of_scalings(const std::string& text) {
  const auto names = enum_names(report::Scaling());
  if (std::ranges::find(names, text) != names.end()) return {};
  return fmt::format("'{}' is not one of {}", printable(text), fmt::join(names, ", "));
}

int bench(const BenchFlags& flags, Context& context) {
  std::vector<study::Setting> settings = settings_of(flags);
  scale(flags, settings, context);
  std::vector<study::RunRequest> requests = check_all(flags, settings, context);
  // Known before an hour of runs rather than after it.
  if (const fs::path folder = fs::path(flags.save).parent_path(); !folder.empty())
    make_folder(folder);
  const study::WarmUp warm_up = pin_threads(flags, settings, requests, context);
  if (warm_up.stopped) return *warm_up.stopped;
  const std::vector<report::BenchRow> rows =
      study::run_rounds(settings, flags.repeats, trial_runner(flags, settings, requests, context));
  Json document = report::bench_document(rows, flags.config.file);
  document["num_threads"] = warm_up.threads ? Json(*warm_up.threads) : Json(nullptr);
  const report::Scaling mode = mode_of(flags);
  document["scaling"] = report::scaling_json(rows, report::scaling_rows(rows, mode), mode);
  print_rows(rows, document, flags, context);
  if (!flags.save.empty()) write_atomically(flags.save, to_pretty(document) + "\n");
  return study::exit_code_of(rows);
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& verb = add_verb(program, context,
                            {"bench", "compare settings in fresh, interleaved runs", kTrainGroup},
                            [flags, &context] { return bench(*flags, context); });
  add_config_arguments(verb, flags->config);
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    std::string help = kAxes[i].help;
    if (std::string_view(kAxes[i].key) == "trainer.precision") {
      help += fmt::format(": {}", fmt::join(enum_names(spec::Precision{}), ","));
    }
    verb.add_option(kAxes[i].flag, flags->lists[i], help)->type_name(kAxes[i].place);
  }
  verb.add_option("--grid", flags->grid,
                  "values of any key to compare: optimizer.lr=0.1,0.01; may be repeated")
      ->type_name("KEY=LIST")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option(
          "--scaling", flags->scaling,
          "what stays with --devices: weak: the batch of a device; strong: the samples of a "
          "step, so that loader.batch_size is divided; weak where this is left out")
      ->type_name("HOW")
      ->check(std::function<std::string(const std::string&)>(one_of_scalings));
  verb.add_option("--repeats", flags->repeats, "runs of each setting")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  verb.add_option("--out", flags->out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_flag("--markdown", flags->markdown, "print the table as Markdown");
  verb.add_option("--save", flags->save, "write the JSON document to this file")->type_name("FILE");
}

}  // namespace trainctl::app
