#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The events of a TensorBoard file as bytes: one function for each kind, without their frame
// (tensorboard_file.hpp).

namespace trainctl::report::tensorboard {

/// When an event came: `wall_time` in seconds since 1970.
struct Moment {
  double wall_time = 0;
  std::int64_t step = 0;
};

/// The first event of every file.
std::string version_event(double wall_time);
/// A session begins: what earlier files have from `moment.step` on is forgotten by the reader.
std::string start_event(Moment moment);

using Scalars = std::vector<std::pair<std::string, double>>;
/// Numbers are kept in single precision, as the format has it.
std::string scalars_event(Moment moment, const Scalars& scalars);

/// Markdown, under the tab Text.
std::string text_event(Moment moment, const std::string& tag, const std::string& text);

/// A picture as a PNG file.
struct Picture {
  int width = 0;
  int height = 0;
  std::string png;
};
std::string image_event(Moment moment, const std::string& tag, const Picture& picture);

/// Of the finite values, in 30 bins of one width; empty where there are none.
std::string histogram_event(Moment moment, const std::string& tag, std::span<const double> values);

using HParam = std::variant<double, bool, std::string>;
struct HParams {
  std::string group;  // of runs that are shown as one row
  std::vector<std::pair<std::string, HParam>> values;
  std::vector<std::string> metrics;  // tags of scalars beside which they are shown
};
/// Two events: what there is to compare, and the values of this run.
std::vector<std::string> hparams_events(double wall_time, const HParams& params);
enum class Success { no, yes };
std::string hparams_end_event(double wall_time, Success success);

}  // namespace trainctl::report::tensorboard
