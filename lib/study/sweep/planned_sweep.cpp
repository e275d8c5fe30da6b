#include "study/sweep/planned_sweep.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/random.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/tree/yaml.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/resume/config_changes.hpp"

#include <cmath>
#include <numeric>

namespace trainctl::study {
namespace {

constexpr const char* kSeed = "seed";

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

// Draws for different purposes must not share random numbers.
constexpr std::uint16_t kValue = 1;
constexpr std::uint16_t kOrder = 2;

std::uint64_t seed_of(std::uint64_t seed, const std::string& key) {
  Hasher hasher;
  hasher.add(seed);
  hasher.add(key);
  return hasher.value();
}

double unit_of(CounterRng& rng) {
  constexpr double kSteps = 9007199254740992.0;  // 2^53
  return static_cast<double>(rng.next_u64() >> 11U) / kSteps;
}

double bound_of(const std::string& key, const std::string& text) {
  const auto value = parse_number<double>(text);
  ENSURE(config, value && std::isfinite(*value), "{}: '{}' is not a number", printable(key),
         printable(text));
  return *value;
}

Dimension drawn(std::string key, Spread spread, std::string_view arguments) {
  const char* name = spread == Spread::uniform ? "uniform" : "log";
  const std::vector<std::string> bounds = split_values(arguments);
  ENSURE(config, bounds.size() == 2, "{}: {}() needs a lowest and a highest value, got '{}'",
         printable(key), name, printable(arguments));
  Dimension dimension{{std::move(key), {}}, spread, 0, 0};
  dimension.low = bound_of(dimension.axis.key, bounds[0]);
  dimension.high = bound_of(dimension.axis.key, bounds[1]);
  ENSURE(config, dimension.low < dimension.high,
         "{}: the first value of {}({}) must be below the second", printable(dimension.axis.key),
         name, printable(arguments));
  ENSURE(config, spread == Spread::uniform || dimension.low > 0,
         "{}: the first value of log({}) must be above 0", printable(dimension.axis.key),
         printable(arguments));
  return dimension;
}

std::pair<std::string_view, std::string_view> halves(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {word, {}};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

void check_keys(std::span<const Dimension> dimensions) {
  for (const Dimension& dimension : dimensions) {
    const auto same = std::ranges::count_if(
        dimensions, [&](const Dimension& other) { return other.axis.key == dimension.axis.key; });
    ENSURE(config, same == 1, "{} is given twice\nhint: put all its values in one list",
           printable(dimension.axis.key));
  }
}

void check_count(std::span<const Dimension> dimensions, std::size_t count) {
  check_keys(dimensions);
  ENSURE(
      config, !dimensions.empty(),
      "no key is varied\nhint: give a key a range to sample, such as optimizer.lr=log(1e-4,0.1)");
  ENSURE(config, count >= 1 && count <= kMostSweepRuns,
         "--samples or --lhs must be from 1 to {}, got {}", kMostSweepRuns, count);
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  CounterRng rng(seed, 0, count, kOrder);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

enum class Sampling { independent, latin_hypercube };

Settings drawn_settings(std::span<const Dimension> dimensions, std::size_t count,
                        std::uint64_t seed, Sampling sampling) {
  check_count(dimensions, count);
  Settings settings(count);
  for (const Dimension& dimension : dimensions) {
    const std::uint64_t own = seed_of(seed, dimension.axis.key);
    const std::vector<std::size_t> parts =
        sampling == Sampling::latin_hypercube ? shuffled(count, own) : std::vector<std::size_t>();
    for (std::size_t i = 0; i < count; ++i) {
      CounterRng rng(own, 0, i, kValue);
      double unit = unit_of(rng);
      if (!parts.empty())
        unit = (static_cast<double>(parts[i]) + unit) / static_cast<double>(count);
      settings[i].emplace_back(dimension.axis.key, value_at(dimension, unit));
    }
  }
  return settings;
}

report::Overrides overrides_of(const config::Node& item, config::Diagnostics& problems) {
  report::Overrides overrides;
  if (item.broken) return overrides;
  if (item.type != config::Node::Type::map || item.entries.empty()) {
    problems.error(
        item.position,
        fmt::format("a run must be a map of keys and values, got {}", config::describe_value(item)),
        "write {optimizer.lr: 0.1}");
    return overrides;
  }
  for (const config::Entry& entry : item.entries) {
    const bool is_key = !entry.key.empty() && entry.key.find('=') == std::string::npos;
    if (!is_key) problems.error(entry.key_position, "a key must not be empty or contain '='");
    overrides.emplace_back(entry.key, config::flow_text(entry.value, config::References::plain));
  }
  return overrides;
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
    ENSURE(config, bare_key(space.dimensions.back().axis.key) != "seed",
           "seed must be varied with --seeds, because runs of one setting are compared seed by "
           "seed\nhint: use --seeds {}",
           printable(word.substr(word.find('=') + 1)));
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
  ENSURE(config, !space.dimensions.empty() || !options.seeds.empty(),
         "no key is varied\nhint: give a key several values, as in optimizer.lr=0.1,0.01, or add "
         "--list FILE or --seeds 0,1,2");
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
    const std::size_t runs = settings.size() * std::max<std::size_t>(seeds_.size(), 1);
    ENSURE(config, runs <= kMostSweepRuns, "the sweep has {} runs, and at most {} are allowed",
           with_thousands(static_cast<long long>(runs)), kMostSweepRuns);
    for (const report::Overrides& setting : settings) {
      for (const auto& [key, value] : setting) {
        ENSURE(config, seeds_.empty() || bare_key(key) != "seed",
               "--list {} sets seed={}, and --seeds sets it for all runs\nhint: omit --seeds",
               printable(options_.list), printable(value));
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
    const bool on_cpu = experiment.trainer.accelerator == spec::Accelerator::cpu;
    sweep_.devices[hash] = on_cpu ? 0 : experiment.trainer.devices.value_or(-1);
    if (seeds_.empty()) sweep_.runs.push_back({hash, experiment.seed, setting});
    for (const std::uint64_t seed : seeds_) sweep_.runs.push_back({hash, seed, setting});
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

bool is_dimension(std::string_view word) {
  const auto [key, values] = halves(word);
  if (key.empty() || key.starts_with('~') || values.empty()) return false;
  for (const char* name : {"range", "choice", "uniform", "log"}) {
    if (call_of(values, name)) return true;
  }
  return split_values(values).size() > 1;
}

Dimension parse_dimension(std::string_view word) {
  const auto [key, values] = halves(word);
  if (const auto bounds = call_of(values, "uniform"))
    return drawn(std::string(key), Spread::uniform, *bounds);
  if (const auto bounds = call_of(values, "log"))
    return drawn(std::string(key), Spread::logarithmic, *bounds);
  return {parse_axis(std::string(key), values), Spread::listed, 0, 0};
}

std::string value_at(const Dimension& dimension, double unit) {
  const std::vector<std::string>& values = dimension.axis.values;
  if (dimension.spread == Spread::listed) {
    const auto index = static_cast<std::size_t>(unit * static_cast<double>(values.size()));
    return values[std::min(index, values.size() - 1)];
  }
  const bool is_log = dimension.spread == Spread::logarithmic;
  const double low = is_log ? std::log(dimension.low) : dimension.low;
  const double high = is_log ? std::log(dimension.high) : dimension.high;
  const double at = low + unit * (high - low);
  const std::string text = fmt::format("{:.6g}", is_log ? std::exp(at) : at);
  // Rounding may move the value out of the range by its last digit.
  const double rounded = bound_of(dimension.axis.key, text);
  if (rounded < dimension.low) return fmt::format("{}", dimension.low);
  if (rounded > dimension.high) return fmt::format("{}", dimension.high);
  return text;
}

Settings grid_settings(std::span<const Dimension> dimensions) {
  std::vector<Axis> axes;
  for (const Dimension& dimension : dimensions) {
    ENSURE(
        config, dimension.spread == Spread::listed,
        "{}: {}() needs a number of samples\nhint: add --samples N or --lhs N, or list the values",
        printable(dimension.axis.key), dimension.spread == Spread::uniform ? "uniform" : "log");
    axes.push_back(dimension.axis);
  }
  Settings settings;
  for (Setting& setting : product(axes)) settings.push_back(std::move(setting.values));
  return settings;
}

Settings random_settings(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed) {
  return drawn_settings(dimensions, count, seed, Sampling::independent);
}

Settings latin_hypercube(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed) {
  return drawn_settings(dimensions, count, seed, Sampling::latin_hypercube);
}

Settings listed_settings(const std::filesystem::path& file) {
  const std::string text = read_file(file, config::kMaxFileBytes, ReadFailure::config);
  config::Diagnostics problems;
  const config::Node list =
      config::parse_yaml(config::make_source(file.string(), text), text, problems);
  if (!list.broken && (list.type != config::Node::Type::list || list.items.empty()))
    problems.error(
        list.position,
        fmt::format("the file must be a list of runs, got {}", config::describe_value(list)),
        "write each run as '- {optimizer.lr: 0.1}'");
  Settings settings;
  for (const config::Node& item : list.items) settings.push_back(overrides_of(item, problems));
  problems.throw_if_errors();
  ENSURE(config, settings.size() <= kMostSweepRuns, "{} must list at most {} runs, got {}",
         printable(file.string()), kMostSweepRuns, settings.size());
  return settings;
}

PlannedSweep plan_sweep(const SweepOptions& options, const Invocation& invocation,
                        config::Diagnostics& diagnostics) {
  return SweepPlanner(options, invocation, diagnostics).plan();
}

}  // namespace trainctl::study
