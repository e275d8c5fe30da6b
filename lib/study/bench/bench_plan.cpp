#include "study/bench/bench_plan.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/bench/baseline.hpp"
#include "study/resume/config_changes.hpp"

namespace trainctl::study {
namespace {

using Overrides = std::vector<std::string>;

void append(Overrides& overrides, const Overrides& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
}

// Returns the batch size per device in the file with the overrides of the setting.
std::int64_t batch_of(const Setting& setting, const Invocation& invocation,
                      config::Diagnostics& diagnostics) {
  Overrides overrides = invocation.overrides;
  append(overrides, setting.overrides());
  const spec::Loaded loaded = spec::load_experiment(invocation.config_file, overrides, diagnostics);
  diagnostics = {};  // the settings repeat its warnings
  ENSURE(config, !loaded.experiment.loader.batch_size.automatic,
         "--scaling strong needs a number as loader.batch_size, got auto\nhint: set one, as in "
         "loader.batch_size=64");
  return loaded.experiment.loader.batch_size;
}

/// Returns the values of a patch by path, without the maps that contain them.
std::map<std::string, std::string> patch_values(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const std::string text = read_file(file, kMostBytes, ReadFailure::config);
  std::map<std::string, std::string> all;
  try {
    all = resolved_values(text);
  } catch (const Error&) {
    THROW(config, "--against: {} must be a YAML file of keys and values", printable(file));
  }
  std::map<std::string, std::string> values;
  for (const auto& [path, value] : all) {
    const bool is_map = std::ranges::any_of(
        all, [&](const auto& other) { return other.first.starts_with(path + "."); });
    if (!is_map && !path.empty()) values[path] = value;
  }
  ENSURE(config, !values.empty(), "--against: {} contains no values", printable(file));
  return values;
}

std::vector<Setting> settings_against(const BenchOptions& options, const Invocation& invocation,
                                      config::Diagnostics& diagnostics) {
  ENSURE(config, options.axes.empty(),
         "--against compares exactly two settings, with and without its file\nhint: "
         "remove options that list values, such as --grid or --workers");
  const RunRequest base = make_request(invocation, {}, diagnostics);
  diagnostics = {};  // the settings repeat its warnings
  const auto now = resolved_values(resolved_config(base.loaded));
  Setting before{.technique = "as configured", .values = {}};
  Setting after{.technique = fs::path(options.against).filename().string(), .values = {}};
  for (const auto& [key, value] : patch_values(options.against)) {
    const auto found = now.find(key);
    ENSURE(config, found != now.end(),
           "--against: {} sets '{}', a key that the experiment does not have\nhint: correct the "
           "key, or set it in the experiment, too",
           printable(options.against), printable(key));
    before.values.emplace_back(key, found->second);
    after.values.emplace_back(key, value);
  }
  return {before, after};
}

void scale(const BenchOptions& options, const Invocation& invocation,
           std::vector<Setting>& settings, config::Diagnostics& diagnostics) {
  if (!options.scaling) return;
  ENSURE(config, devices_of(settings.front()).has_value(),
         "--scaling needs numbers of devices to compare\nhint: add them, as in --devices 1,2");
  if (options.scaling == report::Scaling::weak) return;
  keep_global_batch(
      settings, [&](const Setting& setting) { return batch_of(setting, invocation, diagnostics); });
}

bool chooses_threads(const RunRequest& request) {
  return request.loaded.experiment.trainer.num_threads.is_auto();
}

bool chooses_layout(const RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  return experiment.trainer.channels_last.is_auto() &&
         spec::may_have_convolutions(experiment.model);
}

/// Returns whether the choice is measured. On a GPU it is not, so each run chooses the same.
bool probes_layout(const RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  return chooses_layout(request) && !experiment.trainer.deterministic &&
         !spec::placement_of(experiment.trainer, read_machine()).on_gpus;
}

int devices_in(const RunRequest& request) {
  return request.loaded.experiment.trainer.devices.value_or(1);
}

RunRequest with_overrides(const RunRequest& request, const Overrides& added) {
  config::Diagnostics found;  // the warnings of the request were already printed
  RunRequest changed = make_request(request, added, found);
  changed.folder.root = request.folder.root;
  return changed;
}

/// The values that a warm-up run chose, by the number of devices, and by model and data.
class WarmUps {
 public:
  WarmUps(std::optional<double> ends_at, const PrintLine& print)
      : ends_at_(ends_at), print_(print) {}

  /// Pins the values that `auto` chose in a warm-up of the request, unless an earlier warm-up has
  /// them. The request is unchanged if the warm-up failed or was ended. `differs` is whether the
  /// requests have different numbers of devices.
  void pin(RunRequest& request, bool differs) {
    const int devices = devices_in(request);
    const std::string inputs = layout_inputs(resolved_config(request.loaded));
    const bool wants_threads =
        chooses_threads(request) && !threads_.contains(devices) && !failed_.contains(devices);
    const bool wants_layout = probes_layout(request) && !layouts_.contains(inputs);
    if (wants_threads || wants_layout) {
      const WarmUp tried = run(request, wants_threads, differs);
      if (was_ended()) return;
      // A format that a row sets itself must not apply to the others.
      if (chooses_layout(request)) layouts_.emplace(inputs, tried.channels_last);
    }
    Overrides pins = threads_pin(request);
    if (const auto known = layouts_.find(inputs);
        chooses_layout(request) && known != layouts_.end() && known->second) {
      pinned_layouts_[inputs] = *known->second;
      pins.push_back(fmt::format("++trainer.channels_last={}", *known->second));
    }
    if (!pins.empty()) request = with_overrides(request, pins);
  }

  void take_threads(int devices, int number) {
    first_.threads = threads_[devices] = number;
    print_(fmt::format("baseline  {} CPU thread{} per process in every run, as in the baseline",
                       number, plural(number)));
  }

  void take_layout(const std::string& inputs, bool channels_last) {
    if (!layouts_.emplace(inputs, channels_last).second) return;
    print_(fmt::format("baseline  memory format {} in every run, as in the baseline",
                       channels_last ? "channels_last" : "contiguous"));
  }

  [[nodiscard]] bool was_ended() const { return first_.stopped || first_.overdue; }
  [[nodiscard]] const WarmUp& first() const { return first_; }
  [[nodiscard]] const std::map<std::string, bool>& layouts() const { return pinned_layouts_; }

 private:
  [[nodiscard]] Overrides threads_pin(const RunRequest& request) const {
    const auto known = threads_.find(devices_in(request));
    if (!chooses_threads(request) || known == threads_.end()) return {};
    return {fmt::format("trainer.num_threads={}", known->second)};
  }

  WarmUp run(const RunRequest& request, bool wants_threads, bool differs) {
    const int devices = devices_in(request);
    Overrides added = threads_pin(request);
    added.emplace_back("trainer.fast_dev_run=true");
    WarmUp tried = repeat_if_contended(with_overrides(request, added));
    if (tried.stopped || tried.overdue) {
      first_.stopped = tried.stopped;
      first_.overdue = tried.overdue;
      if (tried.overdue) print_("warm-up  stopped: the budget is used up");
      return tried;
    }
    if (!wants_threads) return tried;
    if (!tried.threads) {
      failed_.insert(devices);
      print_(fmt::format(
          "warm-up  failed: each run on {} device{} chooses its number of CPU threads itself",
          devices, plural(devices)));
      return tried;
    }
    if (!first_.threads) first_.threads = tried.threads;
    first_.taken = std::max(first_.taken, tried.taken);
    threads_[devices] = *tried.threads;
    print_(fmt::format("warm-up  chose {} CPU thread{} per process for every run{}", *tried.threads,
                       plural(*tried.threads),
                       differs ? fmt::format(" on {} device{}", devices, plural(devices)) : ""));
    return tried;
  }

  WarmUp repeat_if_contended(const RunRequest& request) {
    constexpr int kMostRuns = 3;
    WarmUp tried;
    for (int i = 0; i < kMostRuns; ++i) {
      tried = warm_up(request, steady_clock(), ends_at_);
      if (tried.stopped || tried.overdue || !tried.threads || tried.taken == 0) return tried;
      print_(fmt::format(
          "warm-up  other processes took {:.0f} % of the cores, so {}", 100 * tried.taken,
          i + 1 < kMostRuns ? "the warm-up is repeated" : "the number of threads may be wrong"));
    }
    return tried;
  }

  std::optional<double> ends_at_;
  const PrintLine& print_;
  std::map<int, int> threads_;                          // by the number of devices
  std::map<std::string, std::optional<bool>> layouts_;  // by layout_inputs(); nullopt: it failed
  std::map<std::string, bool> pinned_layouts_;          // of the runs
  std::set<int> failed_;
  WarmUp first_;
};

bool devices_differ(const std::vector<RunRequest>& requests) {
  std::set<int> devices;
  for (const RunRequest& request : requests) {
    if (chooses_threads(request)) devices.insert(devices_in(request));
  }
  return devices.size() > 1;
}

void pin_choices(std::vector<RunRequest>& requests, const Pinning& pinning, WarmUps& warm_ups) {
  const bool differs = devices_differ(requests);
  if (pinning.threads && !differs)
    warm_ups.take_threads(devices_in(requests.front()), *pinning.threads);
  for (const RunRequest& request : requests) {
    const auto known = pinning.layouts.find(layout_inputs(resolved_config(request.loaded)));
    if (chooses_layout(request) && known != pinning.layouts.end())
      warm_ups.take_layout(known->first, known->second);
  }
  for (RunRequest& request : requests) {
    warm_ups.pin(request, differs);
    if (warm_ups.was_ended()) return;
  }
}

}  // namespace

BenchPlan plan_bench(const BenchOptions& options, const Invocation& invocation,
                     config::Diagnostics& diagnostics) {
  BenchPlan plan;
  plan.settings = options.against.empty() ? product(options.axes)
                                          : settings_against(options, invocation, diagnostics);
  scale(options, invocation, plan.settings, diagnostics);
  for (const Setting& setting : plan.settings) {
    plan.requests.push_back(make_request(invocation, setting.overrides(), diagnostics));
    plan.requests.back().folder.root = options.root / "bench";
  }
  return plan;
}

std::vector<std::string> varied_keys(const BenchPlan& plan) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : plan.settings.front().values) keys.push_back(key);
  return keys;
}

BenchRows run_bench(BenchPlan plan, const Pinning& pinning, const Rounds& rounds,
                    const PrintLine& print) {
  WarmUps warm_ups(rounds.ends_at, print);
  pin_choices(plan.requests, pinning, warm_ups);
  BenchRows bench{.rows = {}, .warm_up = warm_ups.first(), .layouts = warm_ups.layouts()};
  if (bench.warm_up.stopped) return bench;
  const std::size_t runs = plan.settings.size() * static_cast<std::size_t>(rounds.repeats);
  std::size_t done = 0;
  bench.rows = run_rounds(plan.settings, rounds, [&](std::size_t setting, int /*repeat*/) {
    TrialResult result = run_trial(plan.requests[setting], steady_clock(), rounds.ends_at);
    const auto* trial = std::get_if<report::Trial>(&result);
    print(fmt::format("run {} of {}  {}  {}", ++done, runs,
                      printable(plan.settings[setting].technique),
                      trial != nullptr ? human_duration(trial->total_s) : "failed"));
    return result;
  });
  return bench;
}

}  // namespace trainctl::study
