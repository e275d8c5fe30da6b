#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/compare/bench.hpp"
#include "report/compare/gate.hpp"
#include "report/text/format.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

/// A part of the text with its position.
struct Piece {
  std::string_view text;
  std::size_t at = 0;
};

Piece trimmed(Piece piece) {
  while (!piece.text.empty() && piece.text.front() == ' ') {
    piece.text.remove_prefix(1);
    ++piece.at;
  }
  while (!piece.text.empty() && piece.text.back() == ' ') piece.text.remove_suffix(1);
  return piece;
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

std::vector<Condition> parse_conditions(std::string_view text,
                                        std::span<const std::string> metrics) {
  return Parser(text, metrics).parse();
}

}  // namespace trainctl::report
