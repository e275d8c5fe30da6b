#include "report/compare/gate.hpp"

#include "base/numbers.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

/// The repeats that would decide a change whose interval includes the bound.
struct Advice {
  std::optional<int> repeats;  // of the tested side; for pairs, of both sides
  std::string text;            // a clause
};

constexpr double kPower = 0.9;
constexpr int kMostRepeats = 1000;

/// Convert a change from the scale (1.05, 0.005) to the condition's unit (5 %, 0.5 pt), and back.
double shown(double change, const Condition& condition) {
  return condition.unit == Unit::percent ? 100 * (change - 1) : 100 * change;
}

/// Returns the distance of the bound from `change` on the scale of the noise.
double distance(double change, const Condition& condition) {
  const double bound = condition.bound / 100;
  return condition.unit == Unit::percent ? std::abs(std::log(change) - std::log(1 + bound))
                                         : std::abs(change - bound);
}

/// Returns the smallest sufficient number of repeats from 3 on, in coarser steps for large numbers.
/// A larger number may be insufficient again, because Welch's degrees of freedom drop to those of
/// the noisier side.
std::optional<int> fewest(const std::function<bool(int)>& suffices) {
  for (int n = static_cast<int>(kFewestPairs); n <= kMostRepeats; n += std::max(1, n / 16)) {
    if (suffices(n)) return n;
  }
  return std::nullopt;
}

/// Two unpaired sides, each with an upper limit of the noise of that side.
class UnpairedSides {
 public:
  UnpairedSides(const Change& change, double alpha)
      : alpha_(alpha), base_count_(count(change.base_side)) {
    const auto limit = [](const SideNoise& own, const SideNoise& other) {
      const SideNoise& known = own.count > 1 ? own : other;
      return deviation_limit(known.deviation, count(known) - 1);
    };
    base_ = limit(change.base_side, change.now_side);
    now_ = limit(change.now_side, change.base_side);
  }

  /// Returns the repeats that are needed against the existing baseline.
  [[nodiscard]] std::optional<int> repeats(double effect) const {
    return fewest([&](int n) { return power(effect, base_count_, n) >= kPower; });
  }
  /// Returns the repeats that are needed if a new baseline has the same number.
  [[nodiscard]] std::optional<int> of_both(double effect) const {
    return fewest([&](int n) { return power(effect, n, n) >= kPower; });
  }

 private:
  static double count(const SideNoise& side) { return static_cast<double>(side.count); }

  /// Returns the power with `m` and `n` repeats by Welch's degrees of freedom; a single run is
  /// assumed to have those of the other side.
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
  double base_ = 0;  // standard deviation of a single repeat
  double now_ = 0;
};

std::string near_text(const Condition& condition) {
  return condition.bound == 0
             ? fmt::format("a change this small needs more than {} repeats", kMostRepeats)
             : fmt::format(
                   "the change is too close to the bound for {} repeats: choose another bound",
                   kMostRepeats);
}

Advice advice_for_pairs(const Condition& condition, const Change& change, double none,
                        double alpha) {
  const double noise = deviation_limit(change.noise, change.df);
  const Aim aim{.power = kPower, .alpha = alpha, .most = kMostRepeats};
  const auto decides = repeats_for(noise, distance(none, condition), aim);
  if (decides && static_cast<std::size_t>(*decides) > change.repeats)
    return {decides,
            fmt::format("{} repeats are probably enough, unless the change is close to the bound",
                        *decides)};
  const auto near = repeats_for(noise, distance(*change.value, condition), aim);
  if (near && static_cast<std::size_t>(*near) > change.repeats)
    return {near,
            fmt::format("{} repeats are probably enough, if the change is as large as measured",
                        *near)};
  return {std::nullopt, near_text(condition)};
}

/// Returns the required repeats, or the required size of the baseline; nullopt if both sides
/// already have that many.
std::optional<Advice> advice_for_unpaired(const UnpairedSides& apart, const Change& change,
                                          double effect, const char* unless) {
  const auto made = [](const SideNoise& side) { return static_cast<int>(side.count); };
  const auto repeats = apart.repeats(effect);
  if (repeats && *repeats > made(change.now_side))
    return Advice{repeats, fmt::format("{} repeats are probably enough, {}", *repeats, unless)};
  const auto both = apart.of_both(effect);
  if (repeats || !both) return std::nullopt;
  return Advice{std::nullopt,
                fmt::format("the {} repeats of the baseline are too few: save a baseline of at "
                            "least {} repeats, and run the new bench with as many",
                            made(change.base_side), *both)};
}

/// Returns how many repeats would distinguish the bound from no change. If these have been made, or
/// the bound is no change, uses the observed change instead. For unpaired sides the baseline is
/// fixed; if no number of repeats is enough against it, the text asks for a larger baseline.
Advice advice(const Condition& condition, const Change& change, double alpha) {
  const double none = condition.unit == Unit::percent ? 1 : 0;
  if (!change.apart) return advice_for_pairs(condition, change, none, alpha);
  const UnpairedSides apart(change, alpha);
  if (auto found = advice_for_unpaired(apart, change, distance(none, condition),
                                       "unless the change is close to the bound"))
    return *found;
  if (auto found = advice_for_unpaired(apart, change, distance(*change.value, condition),
                                       "if the change is as large as measured"))
    return *found;
  return {std::nullopt, near_text(condition)};
}

const std::vector<double>* find(const Samples& samples, const std::string& name) {
  const auto found = samples.find(name);
  return found == samples.end() || found->second.empty() ? nullptr : &found->second;
}

bool is_metric(const std::string& name) { return name.find('/') != std::string::npos; }

/// Returns whether the values are bitwise equal.
bool repeats_itself(const std::vector<double>& values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

/// Returns whether the numbers must be compared exactly: results that follow from a seed are equal
/// in every run, unless a kernel is nondeterministic, which two runs on one side reveal.
bool is_exact(const std::string& name, const std::vector<double>& base,
              const std::vector<double>& now) {
  if (!is_metric(name) || !repeats_itself(base) || !repeats_itself(now)) return false;
  return base.size() + now.size() > 2 || base.front() == now.front();
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

/// For rounding errors: 0.9 - 0.895 is slightly more than half a point.
constexpr double kBoundRounding = 1e-9;

bool crosses(double change, const Condition& condition) {
  return condition.side == Side::below ? change < condition.bound - kBoundRounding
                                       : change > condition.bound + kBoundRounding;
}

void decide(Finding& finding, const Change& change, double level) {
  const Condition& condition = finding.condition;
  if (!change.value) {
    finding.why = "a bound in % needs a baseline above 0: use a bound in pt";
    return;
  }
  finding.change = shown(*change.value, condition);
  if (!change.interval) {
    finding.repeats = static_cast<int>(kFewestPairs);
    finding.why = fmt::format("a confidence interval needs at least {} runs of each side, got {}",
                              kFewestPairs, change.repeats);
    return;
  }
  const Interval interval{shown(change.interval->low, condition),
                          shown(change.interval->high, condition)};
  finding.interval = interval;
  const bool low = crosses(interval.low, condition);
  const bool high = crosses(interval.high, condition);
  if (low == high) {
    finding.verdict = low ? Verdict::fail : Verdict::pass;
    finding.why = fmt::format("the interval {} is {} the bound",
                              interval_text(interval, condition.unit), low ? "beyond" : "within");
    return;
  }
  const Advice next = advice(condition, change, 1 - level);
  finding.repeats = next.repeats;
  finding.why = fmt::format("the interval {} includes the bound; {}",
                            interval_text(interval, condition.unit), next.text);
}

/// Decides on numbers that are equal in all runs of a side.
void decide_exactly(Finding& finding, double base, double now) {
  const Condition& condition = finding.condition;
  const bool share = condition.unit == Unit::percent;
  if (base == now) {
    finding.change = 0;
  } else if (!share || base > 0) {
    finding.change = shown(share ? now / base : now - base, condition);
  } else {
    finding.why = "a bound in % needs a baseline above 0: use a bound in pt";
    return;
  }
  finding.verdict = crosses(*finding.change, condition) ? Verdict::fail : Verdict::pass;
  finding.why = fmt::format("{} -> {} in every repeat", metric_text(base), metric_text(now));
}

/// Returns true if there is nothing to compute.
bool lacks_numbers(Finding& finding, const std::vector<double>* base,
                   const std::vector<double>* now) {
  const std::string& name = finding.condition.metric;
  if (base == nullptr || now == nullptr) {
    finding.why = fmt::format("{} of {} is not reported by every run", name,
                              now == nullptr ? finding.technique : finding.against);
    return true;
  }
  finding.base = mean(*base);
  finding.now = mean(*now);
  if (!all_finite(*base)) {
    finding.why = fmt::format("{} of {} is not finite", name, finding.against);
    return true;
  }
  if (all_finite(*now)) return false;
  finding.verdict = Verdict::fail;
  finding.why = fmt::format("{} is no longer finite", name);
  return true;
}

bool varies(const Condition& condition, const GateComparison& contest) {
  const auto* base = find(contest.base, condition.metric);
  const auto* now = find(contest.now, condition.metric);
  return base != nullptr && now != nullptr && !is_exact(condition.metric, *base, *now);
}

Finding evaluate_condition(const Condition& condition, const GateComparison& contest,
                           double level) {
  Finding finding{
      .condition = condition, .technique = contest.technique, .against = contest.against};
  const auto* base = find(contest.base, condition.metric);
  const auto* now = find(contest.now, condition.metric);
  if (lacks_numbers(finding, base, now)) return finding;
  if (is_exact(condition.metric, *base, *now)) {
    decide_exactly(finding, base->front(), now->front());
    return finding;
  }
  const Scale scale = condition.unit == Unit::percent ? Scale::ratio : Scale::difference;
  const Change change = contest.pairing == Pairing::interleaved
                            ? paired_change(*base, *now, scale, level)
                            : unpaired_change(*base, *now, scale, level);
  finding.outliers = change.outliers;
  decide(finding, change, level);
  return finding;
}

std::string amount_text(const Finding& finding) {
  if (!finding.change) return "-";
  return fmt::format("{:+.{}f} {}", *finding.change, std::abs(*finding.change) < 10 ? 2 : 1,
                     unit_text(finding.condition.unit));
}

std::string number_text(const Finding& finding, const std::optional<double>& value) {
  if (!value) return "-";
  if (is_metric(finding.condition.metric) || !std::isfinite(*value)) return metric_text(*value);
  return *value < 100 ? fmt::format("{:.4g}", *value) : rate_text(*value);
}

/// A part of the text with its position.
struct Piece {
  std::string_view text;
  std::size_t at = 0;
};

Piece trimmed(const Piece& piece) {
  const std::string_view text = trainctl::trimmed(piece.text, " ");
  return {text, piece.at + static_cast<std::size_t>(text.data() - piece.text.data())};
}

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    pieces.push_back(trimmed({text.substr(begin, comma - begin), begin}));
    if (comma == text.size()) return pieces;
    begin = comma + 1;
  }
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> metrics) : text_(text) {
    known_.assign(kMeasures.begin(), kMeasures.end());
    known_.insert(known_.end(), metrics.begin(), metrics.end());
  }

  std::vector<Condition> parse() {
    for (const Piece& piece : pieces_of(text_)) {
      if (auto condition = one(piece)) conditions_.push_back(std::move(*condition));
    }
    ENSURE(config, problems_.empty(), "--fail-on has {} mistake{}:{}", count_, plural(count_),
           problems_);
    return std::move(conditions_);
  }

 private:
  void problem(const Piece& piece, const std::string& what) {
    ++count_;
    const std::size_t width = std::max<std::size_t>(1, piece.text.size());
    problems_ +=
        fmt::format("\n  column {}: {}\n    {}\n    {}^{}", piece.at + 1, what, printable(text_),
                    std::string(column_of(piece.at), ' '), std::string(width - 1, '~'));
  }

  /// Returns the column of a marker below the printed text.
  [[nodiscard]] std::size_t column_of(std::size_t at) const {
    return static_cast<std::size_t>(display_width(printable(text_.substr(0, at))));
  }

  std::optional<Condition> one(const Piece& piece) {
    if (piece.text.empty()) {
      problem(piece, "the condition is empty: write one such as samples_per_s<-2.5%");
      return std::nullopt;
    }
    const std::size_t sign = piece.text.find_first_of("<>=");
    if (sign == std::string_view::npos) {
      problem(piece, "the condition must contain '<' or '>': metric<-2.5% or metric>+2.5%");
      return std::nullopt;
    }
    Condition condition;
    condition.side = piece.text[sign] == '<' ? Side::below : Side::above;
    const bool good_name = take_name(trimmed({piece.text.substr(0, sign), piece.at}), condition);
    const bool good_sign = take_sign({piece.text.substr(sign), piece.at + sign});
    const std::size_t bound_start = piece.text.find_first_not_of("<>=", sign);
    const std::size_t start = std::min(bound_start, piece.text.size());
    const bool good_bound =
        take_bound(trimmed({piece.text.substr(start), piece.at + start}), condition);
    if (!good_name || !good_sign || !good_bound || !is_new(piece, condition)) return std::nullopt;
    condition.text = piece.text;
    std::erase(condition.text, ' ');
    return condition;
  }

  bool take_name(const Piece& name, Condition& condition) {
    condition.metric = name.text;
    if (std::ranges::find(known_, condition.metric) != known_.end()) return true;
    const auto near = nearest(condition.metric, known_);
    problem(name, name.text.empty()
                      ? "the metric before the comparison is missing"
                      : fmt::format("unknown metric '{}'{}; available: {}", printable(name.text),
                                    near ? fmt::format(", did you mean '{}'?", *near) : "",
                                    join(known_, ", ")));
    return false;
  }

  bool take_sign(const Piece& rest) {
    if (rest.text.size() == 1 || rest.text.find_first_not_of("<>=") == 1) {
      if (rest.text[0] != '=') return true;
    }
    const std::size_t length = std::min(rest.text.find_first_not_of("<>="), rest.text.size());
    problem({rest.text.substr(0, length), rest.at}, "the comparison must be '<' or '>'");
    return false;
  }

  bool take_bound(const Piece& bound, Condition& condition) {
    std::string_view number = bound.text;
    const bool points = number.ends_with("pt");
    if (!points && !number.ends_with('%')) {
      problem(bound,
              "the number must end with % (of the value in the baseline) or pt (percentage points "
              "of a ratio such as val/accuracy)");
      return false;
    }
    number.remove_suffix(points ? 2 : 1);
    if (number.starts_with('+') && !number.starts_with("+-")) number.remove_prefix(1);
    const auto value = parse_number<double>(number);
    if (!value || !std::isfinite(*value)) {
      problem(bound, fmt::format("'{}' is not a number", printable(number)));
      return false;
    }
    condition.bound = *value;
    condition.unit = points ? Unit::points : Unit::percent;
    return fits(bound, condition);
  }

  bool fits(const Piece& bound, const Condition& condition) {
    if (condition.unit == Unit::percent && condition.bound <= -100) {
      problem(bound, "the bound must be above -100 %");
      return false;
    }
    const bool own_name = std::ranges::find(kMeasures, condition.metric) != kMeasures.end();
    if (condition.unit == Unit::points && own_name) {
      problem(bound, fmt::format("{} is not a ratio: use a bound in %", condition.metric));
      return false;
    }
    return true;
  }

  bool is_new(const Piece& piece, const Condition& condition) {
    const bool again = std::ranges::any_of(conditions_, [&](const Condition& other) {
      return other.metric == condition.metric && other.side == condition.side;
    });
    if (again)
      problem(piece, fmt::format("{} already has a bound with '{}'", condition.metric,
                                 condition.side == Side::below ? '<' : '>'));
    return !again;
  }

  std::string_view text_;
  std::vector<std::string> known_;
  std::vector<Condition> conditions_;
  std::string problems_;
  int count_ = 0;
};

}  // namespace

std::string interval_text(const Interval& interval, Unit unit) {
  const auto digits = [](double value) { return std::abs(value) < 10 ? 2 : 1; };
  return fmt::format("[{:+.{}f}, {:+.{}f}] {}", interval.low, digits(interval.low), interval.high,
                     digits(interval.high), unit_text(unit));
}

std::string unit_text(Unit unit) { return unit == Unit::percent ? "%" : "pt"; }

double level_for(std::size_t comparisons) {
  constexpr double kFamily = 0.05;
  const double tail = kFamily / static_cast<double>(std::max<std::size_t>(comparisons, 2));
  return 1 - 2 * tail;
}

std::vector<Finding> evaluate_conditions(std::span<const Condition> conditions,
                                         std::span<const GateComparison> contests) {
  std::size_t comparisons = 0;
  for (const GateComparison& contest : contests) {
    comparisons += static_cast<std::size_t>(std::ranges::count_if(
        conditions, [&](const Condition& condition) { return varies(condition, contest); }));
  }
  const double level = level_for(comparisons);
  std::vector<Finding> findings;
  for (const GateComparison& contest : contests) {
    for (const Condition& condition : conditions)
      findings.push_back(evaluate_condition(condition, contest, level));
  }
  return findings;
}

int gate_code(std::span<const Finding> findings) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::find(findings, verdict, &Finding::verdict) != findings.end();
  };
  return any(Verdict::fail) ? 3 : any(Verdict::inconclusive) ? 4 : 0;
}

Table gate_table(std::span<const Finding> findings) {
  Table table({left("condition"), left("setting or run"), "baseline", "now", "change", "interval",
               left("result")});
  for (const Finding& finding : findings)
    table.add({finding.condition.text, printable(finding.technique),
               number_text(finding, finding.base), number_text(finding, finding.now),
               amount_text(finding),
               finding.interval ? interval_text(*finding.interval, finding.condition.unit) : "-",
               enum_name(finding.verdict)});
  return table;
}

std::string gate_notes(std::span<const Finding> findings, Pairing pairing) {
  std::vector<std::string> settings;
  for (const Finding& finding : findings) add_new(settings, printable(finding.technique));
  const auto name_of = [&](const Finding& finding) {
    return finding.condition.text +
           (settings.size() > 1 ? ", " + printable(finding.technique) : "");
  };
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::pass) continue;
    text +=
        fmt::format("{}: {}: {}.\n", finding.verdict == Verdict::fail ? "Failed" : "Inconclusive",
                    name_of(finding), printable(finding.why));
  }
  for (const Finding& finding : findings) {
    if (finding.outliers > 0)
      text += fmt::format("{}: {} outlier{} excluded from the interval.\n", name_of(finding),
                          finding.outliers, finding.outliers == 1 ? " is" : "s are");
  }
  std::vector<std::string> baselines;
  for (const Finding& finding : findings) add_new(baselines, printable(finding.against));
  if (!findings.empty()) text += fmt::format("Compared with {}.\n", join(baselines, ", "));
  if (pairing == Pairing::unpaired && !findings.empty())
    text +=
        "The runs of the baseline do not alternate with those of this bench, so a change may come "
        "from other load on the machine. The intervals are those of Welch's t-test.\n";
  return text;
}

Json gate_json(std::span<const Finding> findings) {
  const auto finding_json = [](const Finding& finding) -> Json {
    return joined({{{"condition", finding.condition.text}},
                   JSON_FIELDS(finding, technique, against, verdict, base, now, change),
                   {{"unit", unit_text(finding.condition.unit)}},
                   JSON_FIELDS(finding, interval, outliers),
                   {{"repeats_needed", or_null(finding.repeats)}, {"why", finding.why}}});
  };
  return {{"exit_code", gate_code(findings)}, {"conditions", json_list(findings, finding_json)}};
}

std::vector<Condition> parse_conditions(std::string_view text,
                                        std::span<const std::string> metrics) {
  return Parser(text, metrics).parse();
}

}  // namespace trainctl::report
