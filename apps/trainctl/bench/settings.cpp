#include "bench/settings.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/run_size.hpp"
#include "study/bench/baseline.hpp"
#include "study/bench/parameter_grid.hpp"
#include "study/resume/config_changes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace trainctl::app {
namespace {

using Overrides = std::vector<std::string>;

std::vector<study::Setting> settings_of(const BenchFlags& flags) {
  std::vector<study::Axis> axes;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (!flags.lists[i].empty()) axes.push_back(study::parse_axis(kAxes[i].key, flags.lists[i]));
  }
  for (const std::string& text : flags.grid) axes.push_back(study::parse_grid(text));
  return study::product(axes);
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
  context.diagnostics = {};  // plan_bench() tells its warnings
  ENSURE(config, !loaded.experiment.loader.batch_size.automatic,
         "--scaling strong divides loader.batch_size, which is auto: add a number, as in "
         "loader.batch_size=64");
  return loaded.experiment.loader.batch_size;
}

/// The values of a patch, without the maps that hold them.
std::map<std::string, std::string> patch_values(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  std::map<std::string, std::string> all;
  try {
    all = study::resolved_values(read_file(file, kMostBytes, ReadFailure::config));
  } catch (const Error&) {
    throw Error(ErrorKind::config,
                fmt::format("--against: {} is no file of keys and values", printable(file)));
  }
  std::map<std::string, std::string> values;
  for (const auto& [path, value] : all) {
    const bool is_map = std::ranges::any_of(
        all, [&](const auto& other) { return other.first.starts_with(path + "."); });
    if (!is_map && !path.empty()) values[path] = value;
  }
  ENSURE(config, !values.empty(), "--against: {} changes nothing", printable(file));
  return values;
}

/// Two: the experiment as it is, and with the whole patch.
std::vector<study::Setting> settings_against(const BenchFlags& flags, Context& context) {
  const bool has_axes =
      !flags.grid.empty() ||
      std::ranges::any_of(flags.lists, [](const auto& list) { return !list.empty(); });
  ENSURE(config, !has_axes, "--against compares two settings: leave out --grid and the other axes");
  const study::RunRequest base = request_for(flags, {}, context);
  context.diagnostics = {};  // plan_bench() tells its warnings
  const auto now = study::resolved_values(study::resolved_config(base.loaded));
  study::Setting before{.technique = "as configured", .values = {}};
  study::Setting after{.technique = fs::path(flags.against).filename().string(), .values = {}};
  for (const auto& [key, value] : patch_values(flags.against)) {
    const auto found = now.find(key);
    ENSURE(config, found != now.end(), "--against: the experiment has no value of '{}'",
           printable(key));
    before.values.emplace_back(key, found->second);
    after.values.emplace_back(key, value);
  }
  return {before, after};
}

void scale(const BenchFlags& flags, std::vector<study::Setting>& settings, Context& context) {
  if (flags.scaling.empty()) return;
  ENSURE(config, study::devices_of(settings.front()).has_value(),
         "--scaling compares numbers of devices: add them, as in --devices 1,2");
  if (mode_of(flags) == report::Scaling::weak) return;
  study::keep_global_batch(
      settings, [&](const study::Setting& setting) { return batch_of(flags, setting, context); });
}

bool chooses_threads(const study::RunRequest& request) {
  return request.loaded.experiment.trainer.num_threads.is_auto();
}

bool chooses_layout(const study::RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  return experiment.trainer.channels_last.is_auto() &&
         spec::may_have_convolutions(experiment.model);
}

/// On a GPU the choice measures no time, so that each run makes the same.
bool probes_layout(const study::RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  return chooses_layout(request) && !experiment.trainer.deterministic &&
         !spec::placement_of(experiment.trainer, read_machine()).on_gpus;
}

std::string layout_inputs_of(const study::RunRequest& request) {
  return study::layout_inputs(study::resolved_config(request.loaded));
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

/// What one run chose for those on as many devices, and of the same model and data.
class Choices {
 public:
  Choices(const BenchFlags& flags, std::optional<double> ends_at, Context& context)
      : flags_(flags), context_(context), ends_at_(ends_at) {}

  /// The overrides that pin what `auto` chose; of a warm-up with the overrides `added`, unless an
  /// earlier one told. None where that failed or was ended.
  Overrides pins(const study::RunRequest& request, Overrides added, bool differs) {
    const int devices = devices_in(request);
    const std::string inputs = layout_inputs_of(request);
    const bool wants_threads =
        chooses_threads(request) && !threads_.contains(devices) && !failed_.contains(devices);
    const bool wants_layout = probes_layout(request) && !layouts_.contains(inputs);
    if ((wants_threads || wants_layout) && !were_ended()) {
      if (const auto known = threads_.find(devices);
          chooses_threads(request) && known != threads_.end())
        added.push_back(threads_pin(known->second));
      const study::WarmUp tried = ask(devices, std::move(added), wants_threads, differs);
      // The format that a row sets itself is no choice for the others.
      if (chooses_layout(request) && !were_ended()) layouts_.emplace(inputs, tried.channels_last);
    }
    Overrides pins;
    if (const auto known = threads_.find(devices);
        chooses_threads(request) && known != threads_.end())
      pins.push_back(threads_pin(known->second));
    if (const auto known = layouts_.find(inputs);
        chooses_layout(request) && known != layouts_.end() && known->second) {
      pinned_layouts_[inputs] = *known->second;
      pins.push_back(fmt::format("++trainer.channels_last={}", *known->second));
    }
    return pins;
  }

  /// The number of the baseline.
  void take(int devices, int number) {
    first_.threads = threads_[devices] = number;
    say(context_, fmt::format("baseline  {} CPU thread{} a process in every run, as it had", number,
                              number == 1 ? "" : "s"));
  }

  /// The memory format of the baseline.
  void take(const std::string& inputs, bool channels_last) {
    if (!layouts_.emplace(inputs, channels_last).second) return;
    say(context_, fmt::format("baseline  images with the channels {} in every run, as it had",
                              channels_last ? "last" : "first"));
  }

  /// A signal, or the end of the budget.
  [[nodiscard]] bool were_ended() const { return first_.stopped || first_.overdue; }
  [[nodiscard]] Pinned pinned() const { return {first_, pinned_layouts_}; }

 private:
  static std::string threads_pin(int number) {
    return fmt::format("trainer.num_threads={}", number);
  }

  study::WarmUp ask(int devices, Overrides added, bool wants_threads, bool differs) {
    added.emplace_back("trainer.fast_dev_run=true");
    study::WarmUp tried = quiet_warm_up(added);
    if (tried.stopped || tried.overdue) {
      first_.stopped = tried.stopped;
      first_.overdue = tried.overdue;
      if (tried.overdue) say(context_, "warm-up  ended: the budget is over");
      return tried;
    }
    if (!wants_threads) return tried;
    if (!tried.threads) {
      failed_.insert(devices);
      say(context_, no_threads_line(devices));
      return tried;
    }
    if (!first_.threads) first_.threads = tried.threads;
    first_.taken = std::max(first_.taken, tried.taken);
    threads_[devices] = *tried.threads;
    say(context_, threads_line(*tried.threads, devices, differs));
    return tried;
  }

  /// Repeats a choice that was made while others took the cores.
  study::WarmUp quiet_warm_up(const Overrides& added) {
    constexpr int kMostRuns = 3;
    study::WarmUp tried;
    for (int i = 0; i < kMostRuns; ++i) {
      tried = study::warm_up(request_for(flags_, added, context_), steady_clock(), ends_at_);
      if (tried.stopped || tried.overdue || !tried.threads || tried.taken == 0) return tried;
      say(context_, fmt::format("warm-up  others took {:.0f} % of the cores: {}", 100 * tried.taken,
                                i + 1 < kMostRuns ? "repeated" : "the number may be wrong"));
    }
    return tried;
  }

  const BenchFlags& flags_;
  Context& context_;
  std::optional<double> ends_at_;
  std::map<int, int> threads_;                          // by the number of devices
  std::map<std::string, std::optional<bool>> layouts_;  // by layout_inputs_of(); none: it failed
  std::map<std::string, bool> pinned_layouts_;          // those that runs have
  std::set<int> failed_;
  study::WarmUp first_;
};

bool devices_differ(const std::vector<study::RunRequest>& requests) {
  std::set<int> devices;
  for (const study::RunRequest& request : requests) {
    if (chooses_threads(request)) devices.insert(devices_in(request));
  }
  return devices.size() > 1;
}

}  // namespace

BenchPlan plan_bench(const BenchFlags& flags, Context& context) {
  BenchPlan plan;
  plan.settings = flags.against.empty() ? settings_of(flags) : settings_against(flags, context);
  scale(flags, plan.settings, context);
  for (const study::Setting& setting : plan.settings)
    plan.requests.push_back(request_for(flags, setting.overrides(), context));
  print_warnings(context);
  return plan;
}

std::vector<std::string> varied_keys(const BenchPlan& plan) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : plan.settings.front().values) keys.push_back(key);
  return keys;
}

Pinned pin_choices(const BenchFlags& flags, BenchPlan& plan, const Pinning& pinning,
                   Context& context) {
  Choices choices(flags, pinning.ends_at, context);
  const bool differs = devices_differ(plan.requests);
  if (pinning.threads && !differs)
    choices.take(devices_in(plan.requests.front()), *pinning.threads);
  for (const study::RunRequest& request : plan.requests) {
    const auto known = pinning.layouts.find(layout_inputs_of(request));
    if (chooses_layout(request) && known != pinning.layouts.end())
      choices.take(known->first, known->second);
  }
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    Overrides added = plan.settings[i].overrides();
    const Overrides pins = choices.pins(plan.requests[i], added, differs);
    if (choices.were_ended()) break;
    if (pins.empty()) continue;
    added.insert(added.end(), pins.begin(), pins.end());
    plan.requests[i] = request_for(flags, added, context);
  }
  return choices.pinned();
}

void say(const Context& context, const std::string& line) {
  if (progress_for(context) != report::ProgressMode::none) writer_for(stderr)(line + "\n");
}

}  // namespace trainctl::app
