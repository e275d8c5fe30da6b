#include "report/html/plot.hpp"

#include "base/strings.hpp"
#include "events/records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

/// Returns 1, 2 or 5 times a power of ten, at least `least`.
double nice_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Returns the multiples of `step` from `low` to `high`, without accumulated rounding errors.
std::vector<double> multiples(double low, double high, double step) {
  std::vector<double> found;
  const double first = std::ceil(low / step - 1e-6);
  const double last = std::floor(high / step + 1e-6);
  for (double i = first; i <= last && found.size() < 100; ++i)
    found.push_back(i == 0 ? 0 : i * step);
  return found;
}

/// Returns "1.2e-5" for "1.2e-05".
std::string short_exponent(std::string text) {
  const std::size_t sign = text.find("e-0");
  if (sign != std::string::npos) text.erase(sign + 2, 1);
  const std::size_t plus = text.find("e+0");
  if (plus != std::string::npos) text.erase(plus + 1, 2);
  return text;
}

static_assert(events::kTimingPhases.size() <= kSeriesColors,
              "two timing phases would have the same color in a chart: add a color to both themes "
              "of page.cpp, its class, and 1 to kSeriesColors in plot.hpp");

}  // namespace

double Axis::place(double value) const {
  if (!std::isfinite(value)) return std::nan("");
  if (scaling == AxisScaling::linear) return (value - low) / (high - low);
  if (!(value > 0)) return std::nan("");
  return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
}

Axis linear_axis(double low, double high, int most) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) return linear_axis(0, 1, most);
  // Subtracting the halves avoids an overflow for large numbers.
  double width = high / 2 - low / 2;
  const double size = std::max(std::abs(low), std::abs(high));
  if (!(width > size * 1e-12)) {  // a single value
    const double margin = size > 0 ? std::min(size * 0.1, 1e307) : 0.5;
    low -= margin;
    high += margin;
    width = high / 2 - low / 2;
  }
  const double step = nice_step(std::max(width / std::max(most, 1) * 2, 1e-300));
  Axis axis{.low = std::floor(low / step + 1e-9) * step,
            .high = std::ceil(high / step - 1e-9) * step};
  axis.ticks = multiples(axis.low, axis.high, step);
  return axis;
}

Axis log_axis(double low, double high, int most) {
  if (!(low > 0) || !std::isfinite(high) || high < low) return log_axis(0.1, 1, most);
  if (high / low < 1.01) {
    low /= 2;
    high *= 2;
  }
  Axis axis{.low = low, .high = high, .scaling = AxisScaling::logarithmic};
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const int every = std::max(1, (last - first) / std::max(most, 1));
  const bool few = last - first <= std::max(2, most / 2);
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      const bool wanted = factor == 1.0 || (few && every == 1);
      if (wanted && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
        axis.ticks.push_back(tick);
    }
  }
  if (axis.ticks.size() < 2) axis.ticks = {low, high};
  return axis;
}

Axis whole_axis(double low, double high, int most) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) return whole_axis(0, 1, most);
  if (high - low < 1) high = low + 1;
  const double step = std::max(1.0, nice_step((high - low) / std::max(most, 1)));
  return {.low = low, .high = high, .ticks = multiples(low, high, step)};
}

std::string tick_text(double value, const Axis& axis) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (axis.scaling == AxisScaling::logarithmic)
    return size < 1e-3 || size >= 1e5 ? short_exponent(fmt::format("{:.2g}", value))
                                      : fmt::format("{:.6g}", value);
  const double apart = axis.ticks.size() > 1 ? axis.ticks[1] - axis.ticks[0] : axis.high - axis.low;
  const double step = std::max(apart, std::numeric_limits<double>::min());
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  if (largest < 1e-3 || largest >= 1e9) {
    const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(largest / step))), 0, 8);
    return short_exponent(fmt::format("{:.{}g}", value, digits + 1));
  }
  if (step >= 1000 && largest >= 1e4 && std::fmod(size, 1000) == 0)
    return fmt::format("{}k", with_thousands(static_cast<long long>(value / 1000)));
  if (step >= 1) return with_thousands(static_cast<long long>(std::llround(value)));
  const int decimals = static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return fmt::format("{:.{}f}", value, std::clamp(decimals, 0, 8));
}

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string color_class(std::size_t number) { return fmt::format("c{}", number % kSeriesColors); }

Html svg_text(double x, double y, Anchor anchor, std::string_view text) {
  return element("text",
                 {{"x", coordinate(x)}, {"y", coordinate(y)}, {"text-anchor", enum_name(anchor)}},
                 text);
}

Html svg_title(std::string_view text) { return element("title", Html(text)); }

Html svg_line(double x1, double y1, double x2, double y2) {
  return element("line", {{"x1", coordinate(x1)},
                          {"y1", coordinate(y1)},
                          {"x2", coordinate(x2)},
                          {"y2", coordinate(y2)}});
}

Html svg_group(std::string_view shape_class, const Html& shapes) {
  return element("g", {{"class", std::string(shape_class)}}, shapes);
}

Html svg_rect(std::string_view shape_class, const Box& box, const Html& content,
              const Attributes& more) {
  Attributes attributes{{"class", std::string(shape_class)},
                        {"x", coordinate(box.x)},
                        {"y", coordinate(box.y)},
                        {"width", coordinate(box.width)},
                        {"height", coordinate(box.height)}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return element("rect", attributes, content);
}

Html frame(const PlotArea& area, const Axis& x, const Axis& y, const PlotLabels& labels) {
  Html grid;
  Html ticks;
  for (const double tick : y.ticks) {
    const double at = area.y(y.place(tick));
    grid += svg_line(area.x(0), at, area.x(1), at);
    ticks += svg_text(area.left - 6, at + 3.5, Anchor::end, tick_text(tick, y));
  }
  const double below = area.height - area.bottom;
  for (const double tick : x.ticks) {
    const double at = area.x(x.place(tick));
    grid += svg_line(at, below, at, below + 4);
    ticks += svg_text(at, below + 15, Anchor::middle, tick_text(tick, x));
  }
  ticks += svg_group("label", svg_text(area.x(1), area.height - 4, Anchor::end, labels.x) +
                                  svg_text(2, 11, Anchor::start, labels.y));
  const Html base = svg_group("base", svg_line(area.x(0), below, area.x(1), below));
  return svg_group("grid", grid) + base + svg_group("ticks", ticks);
}

Html legend(const std::vector<LegendEntry>& entries) {
  if (entries.size() < 2) return {};
  Html items;
  for (const LegendEntry& entry : entries) {
    const std::string look = color_class(entry.color) + (entry.dashed ? " key dashed" : " key");
    items += element("li", element("i", {{"class", look}, {"aria-hidden", "true"}}) + entry.name);
  }
  return element("ul", {{"class", "legend"}}, items);
}

Html figure(const PlotTitle& title, const Html& legend, const Html& svg) {
  const Html caption = element("figcaption", element("h3", Html(title.title)) + legend);
  return element("figure", {{"class", "card"}}, caption + svg);
}

Html drawing(const PlotArea& area, const PlotTitle& title, const Html& shapes,
             const Attributes& more) {
  Attributes attributes{
      {"viewBox", fmt::format("0 0 {} {}", coordinate(area.width), coordinate(area.height))},
      {"role", "img"},
      {"aria-label", title.title}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return element("svg", attributes,
                 svg_title(title.title) + element("desc", Html(title.description)) + shapes);
}

}  // namespace trainctl::report
