#include "study/sweep/planned_sweep.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/resume/config_changes.hpp"

#include <set>

namespace trainctl::study {
namespace {

constexpr const char* kSeed = "seed";
constexpr const char* kFold = "dataset.split.fold";

void flatten(const Json& value, const std::string& path,
             std::map<std::string, std::string>& texts) {
  if (!value.is_object() || (value.empty() && !path.empty())) {
    texts[path] = value.is_string() ? value.get<std::string>() : to_line(value);
    return;
  }
  for (const auto& [key, below] : value.items())
    flatten(below, path.empty() ? key : path + "." + key, texts);
}

std::string value_at(const std::map<std::string, std::string>& texts, const std::string& path) {
  const auto found = texts.find(path);
  return found == texts.end() ? "unset" : found->second;
}

struct SweepSpace {
  std::vector<std::string> words;
  std::vector<Dimension> dimensions;
  std::vector<std::string> fixed;
};

SweepSpace space_of(const std::vector<std::string>& overrides) {
  SweepSpace space;
  for (const std::string& word : overrides) {
    if (!is_dimension(word)) {
      space.fixed.push_back(word);
      continue;
    }
    space.words.push_back(word);
    space.dimensions.push_back(parse_dimension(word));
    const std::string key = bare_key(space.dimensions.back().axis.key);
    ENSURE(config, key != kSeed && key != kFold,
           "{0} must be varied with {1}, because runs of one setting are compared {2} by "
           "{2}\nhint: use {1} {3}",
           key, key == kSeed ? "--seeds" : "--folds", key == kSeed ? "seed" : "fold",
           key == kSeed ? printable(word.substr(word.find('=') + 1)) : "K");
  }
  return space;
}

std::string kind_of(const SweepOptions& options) {
  const int ways = (options.list.empty() ? 0 : 1) + (options.samples > 0) + (options.lhs > 0);
  ENSURE(config, ways <= 1,
         "--list, --samples and --lhs exclude each other\nhint: use one of them");
  if (!options.list.empty()) return "list";
  if (options.samples > 0) return "random";
  return options.lhs > 0 ? "lhs" : "grid";
}

Settings settings_of(const SweepOptions& options, const SweepSpace& space,
                     const std::string& kind) {
  if (kind == "list") {
    ENSURE(config, space.dimensions.empty(),
           "--list cannot be combined with {}\nhint: remove one of them",
           printable(space.words.front()));
    return listed_settings(options.list);
  }
  if (kind == "random")
    return random_settings(space.dimensions, static_cast<std::size_t>(options.samples),
                           options.sample_seed);
  if (kind == "lhs")
    return latin_hypercube(space.dimensions, static_cast<std::size_t>(options.lhs),
                           options.sample_seed);
  ENSURE(config, !space.dimensions.empty() || !options.seeds.empty() || options.folds > 0,
         "no key is varied\nhint: give a key several values, as in optimizer.lr=0.1,0.01, or add "
         "--list FILE, --seeds 0,1,2 or --folds 5");
  return grid_settings(space.dimensions);
}

std::vector<std::uint64_t> seeds_of(const SweepOptions& options) {
  std::vector<std::uint64_t> seeds;
  if (options.seeds.empty()) return seeds;
  for (const std::string& text : parse_axis("--seeds", options.seeds).values) {
    const auto seed = parse_number<std::uint64_t>(text);
    ENSURE(config, seed, "--seeds must be whole numbers of at least 0, got '{}'", printable(text));
    seeds.push_back(*seed);
  }
  const std::set<std::uint64_t> unique(seeds.begin(), seeds.end());
  ENSURE(config, unique.size() == seeds.size(), "--seeds {}: a seed is given twice",
         printable(options.seeds));
  return seeds;
}

std::vector<std::string> words_of(const report::Overrides& overrides) {
  std::vector<std::string> words;
  for (const auto& [key, value] : overrides) words.push_back(key + "=" + value);
  return words;
}

/// Collects the problems of many combinations without duplicates.
class Problems {
 public:
  void add(const config::Diagnostics& diagnostics) {
    for (config::Diagnostic& problem : diagnostics.sorted()) {
      const config::Position& at = problem.position;
      const std::string place =
          at.source == nullptr ? "" : fmt::format("{}:{}:{}", at.source->name, at.line, at.column);
      const std::string key = fmt::format("{}|{}|{}|{}", static_cast<int>(problem.severity), place,
                                          problem.message, problem.hint);
      if (seen_.insert(key).second) all_.add(std::move(problem));
    }
  }
  void add(const Error& error) {
    const bool is_theirs = error.kind() == ErrorKind::config || error.kind() == ErrorKind::data;
    if (!is_theirs) throw Error(error);
    if (!seen_.insert(error.message()).second) return;
    config::Diagnostic problem;
    problem.message = without_hint(error.what());
    problem.hint = error.hint();
    problem.kind = error.kind();
    all_.add(std::move(problem));
  }
  /// Throws if there are errors; otherwise stores the warnings in `diagnostics`.
  void settle(config::Diagnostics& diagnostics) {
    diagnostics = std::move(all_);
    diagnostics.throw_if_errors();
  }

 private:
  config::Diagnostics all_;
  std::set<std::string> seen_;
};

/// Loads one combination after the other, and checks the values that all must share.
class SweepPlanner {
 public:
  SweepPlanner(const SweepOptions& options, const Invocation& invocation,
               config::Diagnostics& diagnostics)
      : options_(options), invocation_(invocation), diagnostics_(diagnostics) {}

  PlannedSweep plan() {
    const SweepSpace space = space_of(invocation_.overrides);
    sweep_.kind = kind_of(options_);
    sweep_.fixed = space.fixed;
    seeds_ = seeds_of(options_);
    const Settings settings = settings_of(options_, space, sweep_.kind);
    const std::size_t runs = settings.size() * std::max<std::size_t>(seeds_.size(), 1) *
                             static_cast<std::size_t>(std::max(options_.folds, 1));
    ENSURE(config, runs <= kMostSweepRuns, "the sweep has {} runs, and at most {} are allowed",
           with_thousands(static_cast<long long>(runs)), kMostSweepRuns);
    for (const report::Overrides& setting : settings) {
      for (const auto& [key, value] : setting) {
        ENSURE(config, seeds_.empty() || bare_key(key) != "seed",
               "--list {} sets seed={}, and --seeds sets it for all runs\nhint: omit --seeds",
               printable(options_.list), printable(value));
        ENSURE(config, options_.folds == 0 || bare_key(key) != kFold,
               "--list {} sets {}={}, and --folds runs every fold\nhint: omit --folds",
               printable(options_.list), kFold, printable(value));
        if (std::ranges::find(varied_, key) == varied_.end()) varied_.push_back(key);
      }
    }
    for (const report::Overrides& setting : settings) read(setting);
    problems_.settle(diagnostics_);
    sweep_.rungs = {epochs_.value_or(0)};
    if (options_.asha) sweep_.rungs = rungs_of(options_.min_epochs, *epochs_, options_.eta);
    check_rungs();
    define(space, settings);
    return std::move(sweep_);
  }

 private:
  void read(const report::Overrides& setting) {
    const auto loaded = load(words_of(setting));
    if (!loaded) return;
    try {
      check(loaded->experiment);
    } catch (Error& error) {
      if (!setting.empty()) error.add_frame(join(words_of(setting), " "));
      return problems_.add(error);
    }
    take(*loaded, setting);
  }

  std::optional<spec::Loaded> load(const std::vector<std::string>& words) {
    std::vector<std::string> overrides = sweep_.fixed;
    overrides.insert(overrides.end(), words.begin(), words.end());
    if (!seeds_.empty()) overrides.push_back(fmt::format("seed={}", seeds_.front()));
    if (options_.folds > 0) {
      overrides.push_back(fmt::format("++dataset.split.folds={}", options_.folds));
      overrides.emplace_back("++dataset.split.val=0");
      overrides.push_back(fmt::format("++{}=0", kFold));
    }
    config::Diagnostics found;
    TrainingSamples ignored;
    std::optional<spec::Loaded> loaded;
    try {
      loaded = spec::load_experiment(invocation_.config_file, overrides, found,
                                     checks_for(Purpose::training, ignored));
    } catch (const Error& error) {
      if (found.error_count() == 0) problems_.add(error);
    }
    problems_.add(found);
    return loaded;
  }

  void take(const spec::Loaded& loaded, const report::Overrides& setting) {
    const spec::Experiment& experiment = loaded.experiment;
    if (taken_.empty()) {
      sweep_.name = experiment.name;
      fixed_values_ = fixed_values(loaded, varied_);
    }
    const std::string hash = config_hash(loaded);
    if (!taken_.emplace(hash, experiment.seed).second) {
      ++sweep_.repeated;
      return;
    }
    sweep_.configs.try_emplace(hash, spec::dump_resolved(loaded));
    ENSURE(
        config, !experiment.trainer.devices.is_list(),
        "trainer.devices lists GPUs, but a sweep assigns GPUs to its runs\nhint: write a number, "
        "and set CUDA_VISIBLE_DEVICES for the whole sweep");
    const bool on_cpu = experiment.trainer.accelerator == spec::Accelerator::cpu;
    sweep_.devices[hash] = on_cpu ? 0 : experiment.trainer.devices.value_or(-1);
    const std::vector<std::uint64_t> seeds = seeds_.empty() ? std::vector{experiment.seed} : seeds_;
    for (const std::uint64_t seed : seeds) {
      if (options_.folds == 0) sweep_.runs.push_back({hash, seed, setting});
      for (int fold = 0; fold < options_.folds; ++fold)
        sweep_.runs.push_back({hash, seed, setting, fold});
    }
  }

  void check(const spec::Experiment& experiment) {
    ENSURE(
        config, experiment.trainer.num_nodes == 1,
        "trainer.num_nodes must be 1 for a sweep, which runs on this machine only, got {}\nhint: "
        "add trainer.num_nodes=1",
        experiment.trainer.num_nodes);
    rank(experiment);
    if (options_.asha) check_halving(experiment);
  }

  void rank(const spec::Experiment& experiment) {
    Ranking& ranking = sweep_.ranking;
    if (ranking.monitor.empty()) {
      const std::string own = spec::checkpoint_monitor(experiment);
      const std::string monitor = options_.monitor.empty() ? own : options_.monitor;
      spec::Mode mode = monitor == own ? spec::resolve_mode(experiment.checkpoint.mode, monitor)
                                       : spec::mode_for(monitor);
      if (!options_.mode.empty()) mode = options_.mode == "min" ? spec::Mode::min : spec::Mode::max;
      ranking = {monitor, mode == spec::Mode::min ? report::Better::lower : report::Better::higher};
    }
    const std::vector<std::string> known = spec::monitored_values(experiment);
    ENSURE(config, std::ranges::find(known, ranking.monitor) != known.end(),
           "'{}' (--monitor) is not a metric that this run logs\nhint: use one of {}",
           printable(ranking.monitor), join(known, ", "));
  }

  void check_halving(const spec::Experiment& experiment) {
    const spec::Trainer& trainer = experiment.trainer;
    const auto epochs = trainer.epoch_limit();
    ENSURE(config, epochs.has_value() && !trainer.fast_dev_run,
           "--asha needs a fixed number of epochs\nhint: set trainer.max_epochs{}",
           trainer.fast_dev_run ? " and remove trainer.fast_dev_run" : "");
    ENSURE(config, epochs_.value_or(*epochs) == *epochs,
           "with --asha, trainer.max_epochs must be the same in all runs, got {} and {}", *epochs,
           epochs_.value_or(0));
    epochs_ = epochs;
    validates_every_ = std::max(validates_every_, trainer.check_val_every_n_epoch);
    const spec::Checkpoint& checkpoint = experiment.checkpoint;
    ENSURE(
        config,
        (checkpoint.save_last || checkpoint.save_top_k != 0) && !checkpoint.save_weights_only,
        "--asha resumes runs from their checkpoints, and this experiment saves none to resume from"
        "\nhint: set checkpoint.save_last=true and checkpoint.save_weights_only=false");
  }

  /// Checks that every rung has a validation; otherwise the monitor would be missing or outdated
  /// there.
  void check_rungs() const {
    if (!options_.asha || !sweep_.ranking.monitor.starts_with("val/")) return;
    std::string rungs;
    bool fits = true;
    for (const std::int64_t rung : sweep_.rungs) {
      rungs += fmt::format("{}{}", rungs.empty() ? "" : ", ", rung);
      fits = fits && (rung % validates_every_ == 0 || rung == sweep_.rungs.back());
    }
    ENSURE(config, fits,
           "--asha compares runs by {} after epochs {}, but trainer.check_val_every_n_epoch={} "
           "skips some of these\nhint: set trainer.check_val_every_n_epoch=1, or --min-epochs to a "
           "multiple of {}",
           printable(sweep_.ranking.monitor), rungs, validates_every_, validates_every_);
  }

  void define(const SweepSpace& space, const Settings& settings) {
    Json& definition = sweep_.definition;
    definition["kind"] = sweep_.kind;
    Json keys = Json::object();
    for (const std::string& word : space.words)
      keys[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    if (sweep_.kind == "list") {
      for (std::size_t i = 0; i < settings.size(); ++i)
        keys[fmt::format("{:04}", i + 1)] = join(words_of(settings[i]), " ");
    }
    definition["keys"] = keys;
    if (sweep_.kind == "random" || sweep_.kind == "lhs") {
      definition["samples"] = settings.size();
      definition["sample_seed"] = options_.sample_seed;
    }
    if (options_.folds > 0) definition["folds"] = options_.folds;
    definition["seeds"] = options_.seeds.empty() ? Json("the experiment's") : Json(options_.seeds);
    if (options_.asha)
      definition["asha"] = {
          {"eta", options_.eta},
          {"min_epochs", options_.min_epochs},
          {"max_epochs", *epochs_},
          {"monitor", sweep_.ranking.monitor},
          {"mode", sweep_.ranking.better == report::Better::lower ? "min" : "max"}};
    definition["base"] = fixed_values_;
  }

  const SweepOptions& options_;
  const Invocation& invocation_;
  config::Diagnostics& diagnostics_;
  PlannedSweep sweep_;
  std::vector<std::uint64_t> seeds_;
  std::vector<std::string> varied_;
  std::set<std::pair<std::string, std::uint64_t>> taken_;  // config hash, seed
  Problems problems_;
  std::optional<std::int64_t> epochs_;  // of a whole run, with --asha
  std::int64_t validates_every_ = 1;    // in epochs; the largest value of all runs
  Json fixed_values_;
};

}  // namespace

std::string config_hash(const spec::Loaded& loaded) {
  config::Node tree = spec::resolved_tree(loaded);
  std::erase_if(tree.entries, [](const config::Entry& entry) { return entry.key == kSeed; });
  Hasher hasher;
  hasher.add(config::flow_text(tree));
  return hasher.hex();
}

std::string bare_key(const std::string& key) {
  return key.substr(std::min(key.find_first_not_of("+~"), key.size()));
}

Json fixed_values(const spec::Loaded& loaded, const std::vector<std::string>& varied) {
  Json values = Json::object();
  for (const auto& [path, value] : resolved_values(spec::dump_resolved(loaded))) {
    const bool varies = std::ranges::any_of(varied, [&](const std::string& word) {
      const std::string key = bare_key(word);
      return path == key || path.starts_with(key + ".");
    });
    if (!varies && path != kSeed) values[path] = value;
  }
  return values;
}

std::string definition_difference(const Json& before, const Json& now) {
  constexpr std::size_t kMostShown = 6;
  std::map<std::string, std::string> was;
  std::map<std::string, std::string> is;
  flatten(before, "", was);
  flatten(now, "", is);
  std::map<std::string, std::string> all = was;
  all.insert(is.begin(), is.end());
  std::string text;
  std::size_t differences = 0;
  for (const auto& [path, ignored] : all) {
    const std::string old_value = value_at(was, path);
    const std::string new_value = value_at(is, path);
    if (old_value == new_value || ++differences > kMostShown) continue;
    text += fmt::format("{}{}: {} -> {}", text.empty() ? "" : "; ", printable(path),
                        printable(old_value), printable(new_value));
  }
  if (differences > kMostShown) text += fmt::format(" and {} more", differences - kMostShown);
  return text;
}

PlannedSweep plan_sweep(const SweepOptions& options, const Invocation& invocation,
                        config::Diagnostics& diagnostics) {
  return SweepPlanner(options, invocation, diagnostics).plan();
}

}  // namespace trainctl::study
