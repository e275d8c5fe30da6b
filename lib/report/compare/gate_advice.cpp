#include "report/compare/gate_advice.hpp"

#include "base/student.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace trainctl::report {
namespace {

constexpr double kPower = 0.9;
constexpr int kMostRepeats = 1000;

/// How far the bound is from `change`, as the noise is measured.
double distance(double change, const Condition& condition) {
  const double bound = scaled(condition.bound, condition);
  return condition.unit == Unit::percent ? std::abs(std::log(change) - std::log(bound))
                                         : std::abs(change - bound);
}

/// The fewest from 3 on that suffice, or few more of many. More may suffice less: Welch's degrees
/// of freedom fall to those of the noisier side.
std::optional<int> fewest(const std::function<bool(int)>& suffices) {
  for (int n = static_cast<int>(kFewestPairs); n <= kMostRepeats; n += std::max(1, n / 16)) {
    if (suffices(n)) return n;
  }
  return std::nullopt;
}

/// Two sides of other days, each with its own noise, by an upper limit of what it may be.
class Apart {
 public:
  Apart(const Change& change, double alpha) : alpha_(alpha), base_count_(count(change.base_side)) {
    const auto limit = [](const SideNoise& own, const SideNoise& other) {
      const SideNoise& known = own.count > 1 ? own : other;
      return deviation_limit(known.deviation, count(known) - 1);
    };
    base_ = limit(change.base_side, change.now_side);
    now_ = limit(change.now_side, change.base_side);
  }

  /// Repeats against the baseline as it is.
  [[nodiscard]] std::optional<int> repeats(double effect) const {
    return fewest([&](int n) { return power(effect, base_count_, n) >= kPower; });
  }
  /// Of a new baseline and as many of the other.
  [[nodiscard]] std::optional<int> of_both(double effect) const {
    return fewest([&](int n) { return power(effect, n, n) >= kPower; });
  }

 private:
  static double count(const SideNoise& side) { return static_cast<double>(side.count); }

  /// With `m` and `n` repeats, by Welch's degrees of freedom; a single run has those of the other.
  [[nodiscard]] double power(double effect, double m, double n) const {
    if (!(effect > 0)) return 0;
    const double a = base_ * base_ / m;
    const double b = now_ * now_ / n;
    if (a + b <= 0) return 1;
    const double df = m < 2 ? n - 1 : (a + b) * (a + b) / (a * a / (m - 1) + b * b / (n - 1));
    return power_at(effect / std::sqrt(a + b), df, alpha_);
  }

  double alpha_;
  double base_count_;
  double base_ = 0;  // deviations of single repeats
  double now_ = 0;
};

std::string near_text(const Condition& condition) {
  return condition.bound == 0
             ? fmt::format("{} repeats would not tell so small a change", kMostRepeats)
             : fmt::format("the change is too near the bound for {} repeats: choose another bound",
                           kMostRepeats);
}

Advice of_pairs(const Condition& condition, const Change& change, double none, double alpha) {
  const double noise = deviation_limit(change.noise, change.df);
  const Aim aim{.power = kPower, .alpha = alpha, .most = kMostRepeats};
  const auto decides = repeats_for(noise, distance(none, condition), aim);
  if (decides && static_cast<std::size_t>(*decides) > change.repeats)
    return {decides,
            fmt::format("{} repeats would decide, unless the change is near the bound", *decides)};
  const auto near = repeats_for(noise, distance(*change.value, condition), aim);
  if (near && static_cast<std::size_t>(*near) > change.repeats)
    return {near,
            fmt::format("{} repeats would decide if the change is as large as it looks", *near)};
  return {std::nullopt, near_text(condition)};
}

/// So many repeats, or how large a baseline; nothing where as many have been made of both.
std::optional<Advice> of_apart(const Apart& apart, const Change& change, double effect,
                               const char* unless) {
  const auto made = [](const SideNoise& side) { return static_cast<int>(side.count); };
  const auto repeats = apart.repeats(effect);
  if (repeats && *repeats > made(change.now_side))
    return Advice{repeats, fmt::format("{} repeats would decide, {}", *repeats, unless)};
  const auto both = apart.of_both(effect);
  if (repeats || !both) return std::nullopt;
  return Advice{std::nullopt,
                fmt::format("no number of repeats would decide against a baseline of {}: save a "
                            "baseline of at least {} repeats, and compare as many with it",
                            made(change.base_side), *both)};
}

}  // namespace

double shown(double change, const Condition& condition) {
  return condition.unit == Unit::percent ? 100 * (change - 1) : 100 * change;
}

double scaled(double bound, const Condition& condition) {
  return condition.unit == Unit::percent ? 1 + bound / 100 : bound / 100;
}

Advice advice(const Condition& condition, const Change& change, double alpha) {
  const double none = condition.unit == Unit::percent ? 1 : 0;
  if (!change.apart) return of_pairs(condition, change, none, alpha);
  const Apart apart(change, alpha);
  if (auto found =
          of_apart(apart, change, distance(none, condition), "unless the change is near the bound"))
    return *found;
  if (auto found = of_apart(apart, change, distance(*change.value, condition),
                            "if the change is as large as it looks"))
    return *found;
  return {std::nullopt, near_text(condition)};
}

}  // namespace trainctl::report
