#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::study {

/// One key of the experiment file and the values to try, as YAML text.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// At commas outside brackets and quotes, without the spaces around each.
std::vector<std::string> split_values(std::string_view text);
/// The arguments of a call: "range(1,10)" with name "range" -> "1,10". Nothing where it is none.
std::optional<std::string_view> call_of(std::string_view text, std::string_view name);

/// "0,4,8", "range(1,10,3)" (start, stop before, step) or "choice(a,b)". Commas inside brackets and
/// quotes do not split:
/// "[128,64],[256]" has two values. Throws Error(config) for an empty list, an empty value or a
/// value given twice.
Axis parse_axis(std::string key, std::string_view values);
/// The same from "key=values".
Axis parse_grid(std::string_view text);

/// One point of the grid.
struct Setting {
  std::string technique;  // "num_workers=4, devices=2"; "as configured" without an axis
  std::vector<std::pair<std::string, std::string>> values;   // key -> value
  [[nodiscard]] std::vector<std::string> overrides() const;  // "loader.num_workers=4"
};

/// Every combination, the last axis fastest. Names are the last words of the keys, or whole keys
/// where two would be the same. Throws Error(config) for a key given twice or more than 1,000
/// combinations.
std::vector<Setting> product(std::span<const Axis> axes);

/// The number of devices of a setting; nothing where it does not name one. Throws Error(config)
/// where it names something else, such as `auto`.
std::optional<int> devices_of(const Setting& setting);

/// The batch of a device of `setting`, by the experiment with its overrides.
using BatchOf = std::function<std::int64_t(const Setting& setting)>;

/// Strong scaling: each setting gets the batch of a device with which a step keeps the samples that
/// it has with the first number of devices. Throws Error(config) where these do not divide, and
/// where no setting names devices.
void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of);

}  // namespace trainctl::study
