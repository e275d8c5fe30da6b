#include "report/plan/communication_cost.hpp"

#include "base/error.hpp"
#include "report/text/table.hpp"

#include <charconv>
#include <cmath>
#include <numeric>

namespace trainctl::report {
namespace {

using NamedUnit = std::pair<std::string_view, double>;

constexpr std::array kRates{
    NamedUnit{"B", 1},           NamedUnit{"kB", 1e3},           NamedUnit{"KB", 1e3},
    NamedUnit{"kbit", 1e3 / 8},  NamedUnit{"Kbit", 1e3 / 8},     NamedUnit{"MB", 1e6},
    NamedUnit{"GB", 1e9},        NamedUnit{"TB", 1e12},          NamedUnit{"KiB", 1024.0},
    NamedUnit{"MiB", 1048576.0}, NamedUnit{"GiB", 1073741824.0}, NamedUnit{"Mbit", 1e6 / 8},
    NamedUnit{"Gbit", 1e9 / 8},  NamedUnit{"Tbit", 1e12 / 8}};
constexpr std::array kTimes{NamedUnit{"ns", 1e-9}, NamedUnit{"us", 1e-6}, NamedUnit{"ms", 1e-3},
                            NamedUnit{"s", 1.0}};

/// Parses a number followed by one of the units.
std::optional<double> quantity(std::string_view text, std::span<const NamedUnit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto unit = std::ranges::find(units, text, &NamedUnit::first);
  if (unit == units.end()) return std::nullopt;
  return number * unit->second;
}

/// Predicts the all-reduce of gradients that overlaps the backward pass.
EstimatedStep estimate_gradients(const SyncedStep& step, const Link& link, int ranks) {
  const double all = static_cast<double>(
      std::accumulate(step.buckets.begin(), step.buckets.end(), std::int64_t{0}));
  EstimatedStep found{.ranks = ranks};
  double computed = 0;  // in bytes
  double gone_at = 0;   // since the start of the backward pass
  for (const std::int64_t bucket : step.buckets) {
    computed += static_cast<double>(bucket);
    const double ready_at = all > 0 ? step.backward_s * computed / all : 0;
    const double seconds = ring_seconds(ranks, static_cast<double>(bucket), link);
    gone_at = std::max(gone_at, ready_at) + seconds;
    found.exchange_s += seconds;
  }
  if (ranks > 1) found.exposed_s = std::max(0.0, gone_at - step.backward_s);
  return found;
}

/// Predicts the average of weights once in `step.every` steps, per step.
EstimatedStep estimate_weight_average(const SyncedStep& step, const Link& link, int ranks) {
  EstimatedStep found{.ranks = ranks};
  for (const std::int64_t bucket : step.buckets)
    found.exchange_s += ring_seconds(ranks, static_cast<double>(bucket), link);
  found.exchange_s /= static_cast<double>(step.every);
  found.exposed_s = found.exchange_s;
  return found;
}

using events::LinkMeasured;

/// The line a + b x bytes.
struct StraightLine {
  double a = 0;
  double b = 0;
};

void expect_measured(const LinkMeasured& measured) {
  const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds > 0; };
  const auto is_size = [](std::int64_t bytes) { return bytes > 0; };
  ENSURE(unexpected,
         measured.ranks >= 2 && !measured.bytes.empty() &&
             measured.bytes.size() == measured.seconds.size() &&
             measured.bytes.size() == measured.repeats.size() &&
             std::ranges::all_of(measured.seconds, is_time) &&
             std::ranges::all_of(measured.bytes, is_size),
         "cannot estimate latency and bandwidth: the measurement over {} ranks returned invalid "
         "values ({} sizes, {} times)",
         measured.ranks, measured.bytes.size(), measured.seconds.size());
}

/// Fits a and b with a of 0 or more and b positive, because negative values can only come from
/// noise.
StraightLine least_squares(const LinkMeasured& measured) {
  double uu = 0;
  double uv = 0;
  double vv = 0;
  double u_sum = 0;
  double v_sum = 0;
  for (std::size_t i = 0; i < measured.bytes.size(); ++i) {
    const double u = 1 / measured.seconds[i];
    const double v = static_cast<double>(measured.bytes[i]) * u;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u_sum += u;
    v_sum += v;
  }
  const double determinant = uu * vv - uv * uv;
  const StraightLine through_origin{0, v_sum / vv};
  if (measured.bytes.size() < 2 || !(determinant > 1e-12 * uu * vv)) return through_origin;
  const StraightLine line{(u_sum * vv - v_sum * uv) / determinant,
                          (v_sum * uu - u_sum * uv) / determinant};
  if (line.a < 0) return through_origin;
  if (line.b > 0) return line;
  return {0, measured.seconds.back() / static_cast<double>(measured.bytes.back())};
}

/// Returns the bytes that each rank sends and receives per second, which do not depend on the
/// number of ranks.
double bus_bandwidth(const LinkMeasured& measured, std::size_t i) {
  const auto n = static_cast<double>(measured.ranks);
  return 2 * (n - 1) / n * static_cast<double>(measured.bytes[i]) / measured.seconds[i];
}

double share_off(const LinkMeasured& measured, const Link& link, std::size_t i) {
  return ring_seconds(measured.ranks, static_cast<double>(measured.bytes[i]), link) /
             measured.seconds[i] -
         1;
}

double number_of(const Json& json, const char* key, const std::string& label) {
  ENSURE(config, json.contains(key) && json[key].is_number(),
         "{}: '{}' of the link must be a number", printable(label), key);
  return json[key].get<double>();
}

}  // namespace

double ring_seconds(int ranks, double bytes, const Link& link) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks);
  return 2 * (n - 1) / n * bytes / link.bytes_per_s + 2 * (n - 1) * link.latency_s;
}

EstimatedStep estimate_step(const SyncedStep& step, const Link& link, int ranks) {
  EstimatedStep found = step.exchange == SyncKind::weights
                            ? estimate_weight_average(step, link, ranks)
                            : estimate_gradients(step, link, ranks);
  if (step.exchange == SyncKind::gradients_and_weights) {
    const double seconds = ring_seconds(ranks, static_cast<double>(step.weight_bytes), link) / 2;
    found.exchange_s += seconds;
    found.exposed_s += seconds;
  }
  found.step_s = step.step_s + found.exposed_s;
  if (found.step_s <= 0) return found;
  found.samples_per_s = static_cast<double>(step.samples) * ranks / found.step_s;
  found.efficiency = step.step_s / found.step_s;
  return found;
}

std::optional<double> parse_bandwidth(std::string_view text) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  const auto rate = quantity(text, kRates);
  return rate && *rate > 0 ? rate : std::nullopt;
}

std::optional<double> parse_latency(std::string_view text) {
  const auto seconds = quantity(text, kTimes);
  return seconds && *seconds >= 0 ? seconds : std::nullopt;
}

std::string bandwidth_text(double bytes_per_s) {
  constexpr std::array kPrefixes{"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  while (bytes_per_s >= 999.5 && prefix + 1 < kPrefixes.size()) {
    bytes_per_s /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g} {}B/s", bytes_per_s, kPrefixes.at(prefix));
}

std::string latency_text(double seconds) {
  return seconds < 0.9995e-3 ? fmt::format("{:.3g} us", seconds * 1e6)
                             : fmt::format("{:.3g} ms", seconds * 1e3);
}

LinkFit fit_link(const LinkMeasured& measured) {
  expect_measured(measured);
  const StraightLine line = least_squares(measured);
  const auto n = static_cast<double>(measured.ranks);
  LinkFit fit{.link = {line.a / (2 * (n - 1)), 2 * (n - 1) / n / line.b}};
  for (std::size_t i = 0; i < measured.bytes.size(); ++i)
    fit.deviation = std::max(fit.deviation, std::abs(share_off(measured, fit.link, i)));
  return fit;
}

std::string ranks_text(const LinkMeasured& measured) {
  const std::string where = measured.device_name.empty() ? "cpu" : printable(measured.device_name);
  return fmt::format("{} processes on {} with {}", measured.ranks, where,
                     printable(measured.backend));
}

std::string link_text(const LinkMeasured& measured, const Style& style) {
  const LinkFit fit = fit_link(measured);
  Table table({"size", "median", "repeats", "model", "error", "bandwidth"});
  for (std::size_t i = 0; i < measured.bytes.size(); ++i) {
    const auto bytes = static_cast<double>(measured.bytes[i]);
    table.add({human_bytes(bytes), human_duration(measured.seconds[i]),
               std::to_string(measured.repeats[i]),
               human_duration(ring_seconds(measured.ranks, bytes, fit.link)),
               fmt::format("{:+.0f} %", 100 * share_off(measured, fit.link, i)),
               bandwidth_text(bus_bandwidth(measured, i))});
  }
  return fmt::format("link: all-reduce over {}\n\n", ranks_text(measured)) + to_text(table, style) +
         fmt::format(
             "\n  latency    {} per message\n  bandwidth  {} between neighbors\n"
             "  model      {}\n             at most {} % error\n",
             latency_text(fit.link.latency_s), bandwidth_text(fit.link.bytes_per_s), kRingFormula,
             percent_text(fit.deviation));
}

Json link_json(const LinkMeasured& measured) {
  const LinkFit fit = fit_link(measured);
  Json points = Json::array();
  for (std::size_t i = 0; i < measured.bytes.size(); ++i) {
    points.push_back({{"bytes", measured.bytes[i]},
                      {"seconds", measured.seconds[i]},
                      {"repeats", measured.repeats[i]},
                      {"model_s", ring_seconds(measured.ranks,
                                               static_cast<double>(measured.bytes[i]), fit.link)},
                      {"bus_bytes_per_s", bus_bandwidth(measured, i)}});
  }
  return {{"schema", "trainctl.link/2"},     {"backend", measured.backend},
          {"device", measured.device},       {"device_name", or_null(measured.device_name)},
          {"ranks", measured.ranks},         {"formula", kRingFormula},
          {"latency_s", fit.link.latency_s}, {"bandwidth_bytes_per_s", fit.link.bytes_per_s},
          {"deviation", fit.deviation},      {"points", points}};
}

Link read_link(const Json& document, const std::string& label) {
  const Json* link = &document;
  if (document.is_object() && document.contains("link")) link = &document["link"];
  const bool is_link =
      link->is_object() && link->contains("schema") && (*link)["schema"] == "trainctl.link/2";
  ENSURE(config, is_link,
         "{} contains no measured link\nhint: measure one with 'trainctl doctor --link --json'",
         printable(label));
  const Link found{number_of(*link, "latency_s", label),
                   number_of(*link, "bandwidth_bytes_per_s", label)};
  ENSURE(config,
         std::isfinite(found.latency_s) && found.latency_s >= 0 &&
             std::isfinite(found.bytes_per_s) && found.bytes_per_s > 0,
         "{}: a link must have a finite latency of at least 0 s and a positive bandwidth, got {} s "
         "and {} bytes/s",
         printable(label), found.latency_s, found.bytes_per_s);
  return found;
}

}  // namespace trainctl::report
