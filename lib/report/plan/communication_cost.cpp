#include "report/plan/communication_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace trainctl::report {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr std::array kRates{
    Unit{"B", 1},          Unit{"kB", 1e3},        Unit{"KB", 1e3},           Unit{"kbit", 1e3 / 8},
    Unit{"Kbit", 1e3 / 8}, Unit{"MB", 1e6},        Unit{"GB", 1e9},           Unit{"TB", 1e12},
    Unit{"KiB", 1024.0},   Unit{"MiB", 1048576.0}, Unit{"GiB", 1073741824.0}, Unit{"Mbit", 1e6 / 8},
    Unit{"Gbit", 1e9 / 8}, Unit{"Tbit", 1e12 / 8}};
constexpr std::array kTimes{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1.0}};

/// A number and one of the units.
std::optional<double> quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto unit = std::ranges::find(units, text, &Unit::first);
  if (unit == units.end()) return std::nullopt;
  return number * unit->second;
}

/// Beside the backward pass.
ForetoldStep gradients_gone(const ExchangedStep& step, const Link& link, int ranks) {
  const double all = static_cast<double>(
      std::accumulate(step.buckets.begin(), step.buckets.end(), std::int64_t{0}));
  ForetoldStep found{.ranks = ranks};
  double computed = 0;  // bytes of gradients
  double gone_at = 0;   // since the backward pass began
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

/// After so many steps, and counted by the step.
ForetoldStep averaged_weights(const ExchangedStep& step, const Link& link, int ranks) {
  ForetoldStep found{.ranks = ranks};
  for (const std::int64_t bucket : step.buckets)
    found.exchange_s += ring_seconds(ranks, static_cast<double>(bucket), link);
  found.exchange_s /= static_cast<double>(step.every);
  found.exposed_s = found.exchange_s;
  return found;
}

}  // namespace

double ring_seconds(int ranks, double bytes, const Link& link) {
  if (ranks < 2) return 0;
  const auto n = static_cast<double>(ranks);
  return 2 * (n - 1) / n * bytes / link.bytes_per_s + 2 * (n - 1) * link.latency_s;
}

ForetoldStep foretell(const ExchangedStep& step, const Link& link, int ranks) {
  ForetoldStep found = step.exchange == Exchange::weights ? averaged_weights(step, link, ranks)
                                                          : gradients_gone(step, link, ranks);
  if (step.exchange == Exchange::gradients_and_weights) {
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

}  // namespace trainctl::report
