#include "report/compare/noise.hpp"

#include "base/statistics.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace trainctl::report {
namespace {

constexpr double kOf5 = 1.966777;
constexpr double kOf20 = 0.767470;

double slowdown(double k, double variation) {
  return std::expm1(k * std::numbers::sqrt2 * variation);
}

double deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

Noise noise_of(std::span<const double> seconds) {
  std::vector<double> kept;
  std::vector<double> logs;
  for (const double one : seconds) {
    if (!(one > 0) || !std::isfinite(one)) continue;
    kept.push_back(one);
    logs.push_back(std::log(one));
  }
  Noise noise;
  if (kept.empty()) return noise;
  noise.repeats = static_cast<int>(kept.size());
  noise.median_s = median(kept);
  noise.variation = deviation(logs);
  noise.slowdown_5 = slowdown(kOf5, noise.variation);
  noise.slowdown_20 = slowdown(kOf20, noise.variation);
  return noise;
}

std::string noise_text(const Noise& noise) {
  return fmt::format(
      "the same work varies by {} % (of {} repeats of {:.0f} ms): a slow-down of {} % can be told "
      "by 5 paired repeats, of {} % by 20, with a power of 90 % (log(1 + d) = k(n) sqrt(2) v, k(5) "
      "= 1.967, k(20) = 0.767)",
      percent(noise.variation), noise.repeats, 1000 * noise.median_s, percent(noise.slowdown_5),
      percent(noise.slowdown_20));
}

Json noise_json(const Noise& noise) {
  return {{"repeats", noise.repeats},
          {"median_s", json_number(noise.median_s)},
          {"variation", json_number(noise.variation)},
          {"detectable_slowdown",
           {{"5", json_number(noise.slowdown_5)}, {"20", json_number(noise.slowdown_20)}}}};
}

}  // namespace trainctl::report
