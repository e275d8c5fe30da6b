#include "study/bench/parameter_grid.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <algorithm>

namespace trainctl::study {
namespace {

constexpr std::size_t kMostSettings = 1000;
constexpr const char* kStrategy = "distributed.type";  // "strategy" in Lightning

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

double to_number(const std::string& key, const std::string& text) {
  const auto value = parse_number<double>(text);
  ENSURE(config, value, "{}: '{}' in range() is not a number", printable(key), printable(text));
  return *value;
}

std::vector<std::string> range_values(const std::string& key, std::string_view arguments) {
  const std::vector<std::string> parts = split_values(arguments);
  ENSURE(config, parts.size() == 2 || parts.size() == 3,
         "{}: range() takes start, stop and optionally a step, got {}", printable(key),
         printable(arguments));
  const double start = to_number(key, parts[0]);
  const double stop = to_number(key, parts[1]);
  const double step = parts.size() == 3 ? to_number(key, parts[2]) : 1;
  ENSURE(config, step > 0 && stop > start,
         "{}: range({}) is empty\nhint: use a step above 0 and a stop above the start",
         printable(key), printable(arguments));
  std::vector<std::string> values;
  for (std::size_t i = 0; start + static_cast<double>(i) * step < stop; ++i) {
    ENSURE(config, i < kMostSettings, "{}: range({}) has more than {} values", printable(key),
           printable(arguments), kMostSettings);
    values.push_back(fmt::format("{}", start + static_cast<double>(i) * step));
  }
  return values;
}

// Returns the last component of each key, or the whole keys if two last components are equal.
std::vector<std::string> short_names(std::span<const Axis> axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) {
    const bool is_strategy = axis.key == kStrategy;
    names.push_back(is_strategy ? "strategy" : axis.key.substr(axis.key.rfind('.') + 1));
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return names;
  names.clear();
  for (const Axis& axis : axes) names.push_back(axis.key);
  return names;
}

void check_axes(std::span<const Axis> axes) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    count *= axes[i].values.size();
    ENSURE(config, count <= kMostSettings, "the grid has more than {} combinations", kMostSettings);
    const auto same = std::ranges::count(axes, axes[i].key, &Axis::key);
    ENSURE(config, same == 1, "{} is given twice\nhint: put all its values in one list",
           printable(axes[i].key));
  }
}

constexpr const char* kDevices = "trainer.devices";
constexpr const char* kBatchSize = "loader.batch_size";

using Value = std::pair<std::string, std::string>;

std::string& value_of(Setting& setting, const std::string& key) {
  const auto found = std::ranges::find(setting.values, key, &Value::first);
  if (found != setting.values.end()) return found->second;
  return setting.values.emplace_back(key, "").second;
}

}  // namespace

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if (c == ']' || c == '}' || c == ')') {
      --depth;
    }
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  for (std::string& value : values) value = trimmed(value);
  return values;
}

std::optional<std::string_view> call_of(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || text.size() < name.size() + 2) return std::nullopt;
  if (text[name.size()] != '(' || text.back() != ')') return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

Axis parse_axis(std::string key, std::string_view values) {
  Axis axis{std::move(key), {}};
  values = trimmed(values);
  if (const auto range = call_of(values, "range")) {
    axis.values = range_values(axis.key, *range);
  } else {
    axis.values = split_values(call_of(values, "choice").value_or(values));
  }
  for (const std::string& value : axis.values) {
    ENSURE(config, !value.empty(), "{}: '{}' has an empty value\nhint: give a list such as 0,4,8",
           printable(axis.key), printable(values));
    ENSURE(config, std::ranges::count(axis.values, value) == 1, "{}: the value {} is given twice",
           printable(axis.key), printable(value));
  }
  return axis;
}

Axis parse_grid(std::string_view text) {
  const std::size_t equals = text.find('=');
  ENSURE(config, equals != text.npos && equals > 0,
         "'{}' must have the form key=a,b, such as optimizer.lr=0.1,0.01", printable(text));
  return parse_axis(std::string(trimmed(text.substr(0, equals))), text.substr(equals + 1));
}

std::vector<std::string> Setting::overrides() const {
  std::vector<std::string> texts;
  for (const auto& [key, value] : values) texts.push_back(key + "=" + value);
  return texts;
}

std::vector<Setting> product(std::span<const Axis> axes) {
  check_axes(axes);
  const std::vector<std::string> names = short_names(axes);
  std::vector<Setting> settings(1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<Setting> longer;
    for (const Setting& setting : settings) {
      for (const std::string& value : axes[i].values) {
        Setting next = setting;
        next.technique +=
            fmt::format("{}{}={}", next.technique.empty() ? "" : ", ", names[i], value);
        if (axes[i].key == kStrategy && value == "data_parallel")
          next.technique += " (slower by design)";
        next.values.emplace_back(axes[i].key, value);
        longer.push_back(std::move(next));
      }
    }
    settings = std::move(longer);
  }
  if (axes.empty()) settings.front().technique = "as configured";
  return settings;
}

std::optional<int> devices_of(const Setting& setting) {
  const auto found = std::ranges::find(setting.values, kDevices, &Value::first);
  if (found == setting.values.end()) return std::nullopt;
  const std::string& text = found->second;
  const auto number = parse_number<int>(text);
  ENSURE(config, number && *number >= 1,
         "with --scaling, --devices must be numbers, got '{}'\nhint: list numbers, as in --devices "
         "1,2",
         printable(text));
  return number;
}

void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of) {
  std::optional<int> base;
  for (Setting& setting : settings) {
    const auto devices = devices_of(setting);
    ENSURE(config, devices.has_value(),
           "--scaling needs numbers of devices to compare\nhint: add them, as in --devices 1,2");
    if (!base) base = devices;
    Setting first = setting;
    value_of(first, kDevices) = std::to_string(*base);
    const std::int64_t batch = batch_of(first);
    const std::int64_t samples = batch * *base;
    ENSURE(
        config, samples % *devices == 0,
        "--scaling strong keeps the {} samples of a step ({} on {} device{}), which do not divide "
        "evenly among {} devices\nhint: choose a loader.batch_size that is a multiple of {}, or "
        "--scaling weak",
        samples, batch, *base, plural(*base), *devices, *devices);
    value_of(setting, kBatchSize) = std::to_string(samples / *devices);
  }
}

}  // namespace trainctl::study
