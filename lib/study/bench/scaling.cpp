#include "study/bench/scaling.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace trainctl::study {
namespace {

constexpr const char* kDevices = "trainer.devices";
constexpr const char* kBatch = "loader.batch_size";

using Value = std::pair<std::string, std::string>;

std::string& value_of(Setting& setting, const std::string& key) {
  const auto found = std::ranges::find(setting.values, key, &Value::first);
  if (found != setting.values.end()) return found->second;
  return setting.values.emplace_back(key, "").second;
}

/// The same with another number of devices.
Setting with_devices(Setting setting, int devices) {
  value_of(setting, kDevices) = std::to_string(devices);
  return setting;
}

}  // namespace

std::optional<int> devices_of(const Setting& setting) {
  const auto found = std::ranges::find(setting.values, kDevices, &Value::first);
  if (found == setting.values.end()) return std::nullopt;
  const std::string& text = found->second;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  ENSURE(config, error == std::errc() && end == text.data() + text.size() && number >= 1,
         "--devices: '{}' is no number of devices; --scaling compares numbers, as in --devices 1,2",
         printable(text));
  return number;
}

void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of) {
  std::optional<int> base;
  for (Setting& setting : settings) {
    const auto devices = devices_of(setting);
    ENSURE(config, devices.has_value(),
           "--scaling compares numbers of devices: add them, as in --devices 1,2");
    if (!base) base = devices;
    const std::int64_t batch = batch_of(with_devices(setting, *base));
    const std::int64_t samples = batch * *base;
    ENSURE(
        config, samples % *devices == 0,
        "--scaling strong keeps the {} samples of a step ({} on {} device{}), which do not divide "
        "among {} devices; choose a loader.batch_size of which {} is a factor, or --scaling weak",
        samples, batch, *base, *base == 1 ? "" : "s", *devices, *devices);
    value_of(setting, kBatch) = std::to_string(samples / *devices);
  }
}

}  // namespace trainctl::study
