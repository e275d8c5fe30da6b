#include "report/html/plot.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::report {
namespace {

constexpr std::size_t kColours = 9;

const char* name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::start: return "start";
    case Anchor::middle: return "middle";
    case Anchor::end: return "end";
  }
  return "start";
}

}  // namespace

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string colour_class(std::size_t number) { return fmt::format("c{}", number % kColours); }

Html svg_text(double x, double y, Anchor anchor, std::string_view text) {
  return element(
      "text", {{"x", coordinate(x)}, {"y", coordinate(y)}, {"text-anchor", name_of(anchor)}}, text);
}

Html svg_title(std::string_view text) { return element("title", Html(text)); }

Html svg_line(double x1, double y1, double x2, double y2) {
  return element("line", {{"x1", coordinate(x1)},
                          {"y1", coordinate(y1)},
                          {"x2", coordinate(x2)},
                          {"y2", coordinate(y2)}});
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
  ticks += element("g", {{"class", "label"}},
                   svg_text(area.x(1), area.height - 4, Anchor::end, labels.x) +
                       svg_text(2, 11, Anchor::start, labels.y));
  const Html base = element("g", {{"class", "base"}}, svg_line(area.x(0), below, area.x(1), below));
  return element("g", {{"class", "grid"}}, grid) + base + element("g", {{"class", "ticks"}}, ticks);
}

Html legend(const std::vector<LegendEntry>& entries) {
  if (entries.size() < 2) return {};
  Html items;
  for (const LegendEntry& entry : entries) {
    const std::string look = colour_class(entry.colour) + (entry.dashed ? " key dashed" : " key");
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
