#include "study/sweep/sweep_space.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/random.hpp"
#include "base/strings.hpp"
#include "config/diagnostics.hpp"
#include "config/schema/dump.hpp"
#include "config/tree/load.hpp"
#include "config/tree/yaml.hpp"

#include <cmath>
#include <numeric>

namespace trainctl::study {
namespace {

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

}  // namespace

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

}  // namespace trainctl::study
