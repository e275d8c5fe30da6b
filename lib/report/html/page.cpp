#include "report/html/page.hpp"

#include "base/hash.hpp"
#include "report/html/plot.hpp"

namespace trainctl::report {
namespace {

// The style of every page: light and dark, narrow and wide, for screen and print. Series use the
// colors of Okabe & Ito ("Color Universal Design", 2008), which people with common color vision
// deficiencies can distinguish; the light theme starts with darker colors, the dark theme with
// lighter ones.
constexpr char kStyle[] = R"css(
:root, .light { color-scheme: light;
  --paper: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #5b6470; --rule: #d9dce0; --grid: #e9ebee; --accent: #0072b2; --link: #005f96;
  --good: #00694b; --bad: #a93c00; --wait: #6b5200; --good-back: #e2f3ec; --bad-back: #fbe7dc; --wait-back: #f8efd2;
  --k0: #0072b2; --k1: #d55e00; --k2: #009e73; --k3: #b8608f; --k4: #e69f00; --k5: #56b4e9; --k6: #1c2024; --k7: #b3a500; --k8: #8a929c; --k9: #6f4fb0;
  --h0: #0072b2; --h1: #3f9bcb; --h2: #a9b2bb; --h3: #e0a35c; --h4: #d55e00; }
:root[data-theme="dark"] { color-scheme: dark;
  --paper: #14171a; --card: #1b1f23; --ink: #e6e8ea; --soft: #a3acb6; --rule: #363c43; --grid: #292e34; --accent: #56b4e9; --link: #7cc4ef;
  --good: #5fd0aa; --bad: #ff9a5c; --wait: #f0d264; --good-back: #12322a; --bad-back: #40230f; --wait-back: #39300f;
  --k0: #56b4e9; --k1: #e69f00; --k2: #2fc49a; --k3: #dd96bd; --k4: #e8703a; --k5: #4a8fd6; --k6: #e6e8ea; --k7: #f0e442; --k8: #7d8791; --k9: #b59cf0;
  --h0: #56b4e9; --h1: #3d86b0; --h2: #59626b; --h3: #a3702c; --h4: #e8703a; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { color-scheme: dark;
  --paper: #14171a; --card: #1b1f23; --ink: #e6e8ea; --soft: #a3acb6; --rule: #363c43; --grid: #292e34; --accent: #56b4e9; --link: #7cc4ef;
  --good: #5fd0aa; --bad: #ff9a5c; --wait: #f0d264; --good-back: #12322a; --bad-back: #40230f; --wait-back: #39300f;
  --k0: #56b4e9; --k1: #e69f00; --k2: #2fc49a; --k3: #dd96bd; --k4: #e8703a; --k5: #4a8fd6; --k6: #e6e8ea; --k7: #f0e442; --k8: #7d8791; --k9: #b59cf0;
  --h0: #56b4e9; --h1: #3d86b0; --h2: #59626b; --h3: #a3702c; --h4: #e8703a; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.5rem; }
.top { display: flex; flex-wrap: wrap; gap: .4rem .9rem; align-items: center; }
h1 { font-size: 1.55rem; line-height: 1.2; margin: 0; font-weight: 650; }
h2 { font-size: 1.1rem; margin: 2rem 0 .7rem; padding-top: .5rem; border-top: 1px solid var(--rule); font-weight: 650; }
h3 { font-size: .9rem; margin: 0; font-weight: 600; }
p { margin: .5rem 0; max-width: 75ch; }
a { color: var(--link); }
.sub { color: var(--soft); font-size: .88rem; margin: .3rem 0 0; }
.pill { font-size: .8rem; font-weight: 600; padding: .1rem .6rem; border-radius: 1rem; border: 1px solid currentColor; }
.pill.good { color: var(--good); background: var(--good-back); } .pill.bad { color: var(--bad); background: var(--bad-back); }
.pill.wait { color: var(--wait); background: var(--wait-back); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .9rem 0 0; font-size: .88rem; }
#theme { margin-left: auto; font: inherit; font-size: .8rem; color: var(--soft); background: none; border: 1px solid var(--rule); border-radius: .3rem;
  padding: .15rem .6rem; cursor: pointer; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin: 1rem 0 0; background: var(--card);
  border: 1px solid var(--rule); border-radius: .4rem; overflow: hidden; }
dl.facts div { padding: .5rem .75rem; border: 1px solid var(--rule); margin: -1px 0 0 -1px; }
dt { color: var(--soft); font-size: .78rem; } dd { margin: 0; font-weight: 600; font-size: 1.02rem; }
dd small { display: block; color: var(--soft); font-weight: 400; font-size: .78rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 29rem), 1fr)); gap: 1rem; align-items: start; }
.card { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: .4rem; padding: .7rem .8rem; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; align-items: baseline; margin-bottom: .35rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 .9rem; margin: 0; padding: 0; font-size: .8rem; color: var(--soft); }
.key { display: inline-block; width: .9rem; height: .22rem; margin-right: .35rem; vertical-align: middle; background: var(--c); border-radius: .1rem; }
.key.dashed { background: repeating-linear-gradient(90deg, var(--c) 0 .3rem, transparent .3rem .45rem); }
.readout { font-size: .8rem; color: var(--soft); min-height: 1.3em; margin: .1rem 0 0; }
.c0 { --c: var(--k0); } .c1 { --c: var(--k1); } .c2 { --c: var(--k2); } .c3 { --c: var(--k3); } .c4 { --c: var(--k4); } .c5 { --c: var(--k5); }
.c6 { --c: var(--k6); } .c7 { --c: var(--k7); } .c8 { --c: var(--k8); } .c9 { --c: var(--k9); }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
svg.wide { min-width: 34rem; }
svg text { fill: var(--soft); } .label text { font-weight: 600; } .halo text { paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.grid line { stroke: var(--grid); } .base line { stroke: var(--soft); } .reference line { stroke: var(--soft); stroke-dasharray: 4 3; }
.line path { fill: none; stroke: var(--c); stroke-width: 1.7; stroke-linejoin: round; stroke-linecap: round; }
.line circle { fill: var(--c); } .line.dashed path { stroke-dasharray: 5 3; } .line.faint path { stroke-width: 1; stroke-opacity: .45; }
.bars rect { fill: var(--c); stroke: var(--card); stroke-width: .7; }
.plate { fill: var(--grid); } .heat rect { stroke: var(--card); stroke-width: .6; } .heat .right { fill: var(--k0); } .heat .wrong { fill: var(--k1); }
.heat .on-dark text { fill: var(--card); } .heat .on-light text { fill: var(--ink); } .heat text { font-size: 10px; pointer-events: none; }
.row .value { fill: var(--accent); } .row .point { fill: var(--soft); fill-opacity: .5; } .interval line { stroke: var(--accent); stroke-width: 2; }
.parallel path { fill: none; stroke-width: 1.6; stroke-opacity: .85; } .parallel path:hover { stroke-width: 4; }
.shade0 { stroke: var(--h0); } .shade1 { stroke: var(--h1); } .shade2 { stroke: var(--h2); } .shade3 { stroke: var(--h3); } .shade4 { stroke: var(--h4); }
.cross { stroke: var(--soft); stroke-dasharray: 2 2; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .86rem; background: var(--card); }
.scroll > table { min-width: 100%; border: 1px solid var(--rule); }
th, td { text-align: left; padding: .28rem .7rem; border-bottom: 1px solid var(--grid); vertical-align: top; white-space: nowrap; overflow-wrap: normal; }
th { font-weight: 600; border-bottom-color: var(--rule); color: var(--soft); } td.n, th.n { text-align: right; } tbody th { color: var(--ink); font-weight: 500; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
pre { margin: 0; padding: .7rem .8rem; font: .8rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; white-space: pre;
  overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: .4rem; }
pre.command { white-space: pre-wrap; } .origin { color: var(--soft); }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
.note { border-left: 3px solid var(--wait); background: var(--wait-back); padding: .35rem .8rem; margin: .4rem 0; font-size: .9rem; }
.note.bad { border-color: var(--bad); background: var(--bad-back); }
.verdict { background: var(--card); border: 1px solid var(--rule); border-left: 4px solid var(--accent); border-radius: .4rem; padding: .6rem .9rem; }
.verdict + .cards { margin-top: 1rem; } .verdict p { margin: .2rem 0; } .verdict strong { font-size: 1.02rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr)); gap: .8rem; }
.tiles figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: .4rem; padding: .4rem; font-size: .78rem; }
.tiles img { width: 100%; height: auto; display: block; image-rendering: pixelated; margin-bottom: .3rem; } .tiles figcaption { display: block; margin: 0; }
.samples img { max-width: 100%; min-width: min(100%, 28rem); height: auto; display: block; } .samples .legend { margin-bottom: .5rem; } .samples .key { height: .8rem; }
footer { color: var(--soft); font-size: .8rem; padding-top: 1.5rem; padding-bottom: 2.5rem; }
@media (max-width: 30rem) { header, main, footer { padding-left: .8rem; padding-right: .8rem; } h1 { font-size: 1.3rem; } .card { padding: .55rem .5rem; }
  svg { font-size: 13.5px; } .heat text { font-size: 11px; } }
@media print { body { background: #fff; font-size: 10pt; } #theme, nav, .readout { display: none; } header, main, footer { max-width: none; padding: 0; }
  .card, .tiles figure, tr { break-inside: avoid; } h2 { break-after: avoid; } pre, .scroll { overflow: visible; white-space: pre-wrap; }
  .cards { grid-template-columns: 1fr 1fr; } }
)css";

constexpr std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}
static_assert(occurrences(kStyle, "{ --c: var(--k") == kSeriesColors,
              "the style must have kSeriesColors classes .c0, .c1 ...");
static_assert(occurrences(kStyle, " --k") == 3 * kSeriesColors,
              "the light theme and both dark ones must have kSeriesColors colors --k0, --k1 ...");

// Shows values under the pointer, and switches between light and dark. Pages are complete without
// the script.
constexpr char kScript[] = R"js(
(function () {
  "use strict";
  var root = document.documentElement, button = document.getElementById("theme"), store = null;
  try { store = window.localStorage; root.dataset.theme = store.getItem("trainctl-theme") || ""; } catch (ignored) { store = null; }
  if (!root.dataset.theme) { delete root.dataset.theme; }
  if (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      if (store) { try { store.setItem("trainctl-theme", root.dataset.theme); } catch (ignored) { return; } }
    });
  }
  function points(path) {
    return path.getAttribute("d").split(/(?=[ML])/).filter(Boolean).map(function (word) {
      var numbers = word.slice(1).split(" ");
      return [parseFloat(numbers[0]), parseFloat(numbers[1])];
    });
  }
  function shown(value) {
    var size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(parseFloat(value.toPrecision(4)));
  }
  Array.prototype.forEach.call(document.querySelectorAll("svg.lines"), function (svg) {
    var scales = svg.dataset, left = +scales.left, right = +scales.right, top = +scales.top, bottom = +scales.bottom;
    var lines = Array.prototype.map.call(svg.querySelectorAll("path[data-name]"), function (path) {
      return { name: path.dataset.name, points: points(path) };
    });
    var readout = document.createElement("p"), cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
    readout.className = "readout";
    svg.parentNode.appendChild(readout);
    cross.setAttribute("class", "cross");
    cross.setAttribute("y1", top);
    cross.setAttribute("y2", bottom);
    cross.setAttribute("visibility", "hidden");
    svg.appendChild(cross);
    function valueAt(y) {
      var share = (bottom - y) / (bottom - top), low = +scales.y0, high = +scales.y1;
      return scales.scale === "log" ? low * Math.pow(high / low, share) : low + share * (high - low);
    }
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width, best = null;
      var near = lines.map(function (line) {
        var nearest = line.points.reduce(function (a, b) { return Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a; });
        if (best === null || Math.abs(nearest[0] - x) < Math.abs(best - x)) { best = nearest[0]; }
        return { name: line.name, point: nearest, far: Math.abs(nearest[1] - (event.clientY - box.top) * svg.viewBox.baseVal.height / box.height) };
      });
      if (best === null) { return; }
      if (near.length > 6) { near.sort(function (a, b) { return a.far - b.far; }); near.length = 4; }
      cross.setAttribute("x1", best);
      cross.setAttribute("x2", best);
      cross.setAttribute("visibility", "visible");
      var at = +scales.x0 + (best - left) / (right - left) * (scales.x1 - scales.x0);
      readout.textContent = scales.x + " " + Math.round(at) + "  \u00b7  " + near.map(function (one) {
        return one.name + " " + shown(valueAt(one.point[1]));
      }).join("  \u00b7  ");
    });
    svg.addEventListener("pointerleave", function () { cross.setAttribute("visibility", "hidden"); readout.textContent = ""; });
  });
}());
)js";

const char* class_of(Mood mood) {
  constexpr std::array kClasses{"pill good", "pill bad", "pill wait"};
  return kClasses.at(static_cast<std::size_t>(mood));
}

std::string hash_of(Literal text) {
  return fmt::format("'sha256-{}'", base64(as_text(sha256(text.view()))));
}

Html head_of(const Page& page) {
  const std::string policy = fmt::format(
      "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; "
      "form-action 'none'",
      hash_of(kStyle), hash_of(kScript));
  return element(
      "head",
      element("meta", {{"charset", "utf-8"}}) +
          element("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", policy}}) +
          element("meta",
                  {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
          element("meta", {{"name", "color-scheme"}, {"content", "light dark"}}) +
          element("meta", {{"name", "generator"}, {"content", "trainctl"}}) +
          element("title", Html(page.title)) + raw_element("style", kStyle));
}

Html facts_of(const Page& page) {
  Html tiles;
  for (const Fact& fact : page.facts) {
    if (fact.value.empty()) continue;
    Html value(fact.value);
    if (!fact.remark.empty()) value += element("small", Html(fact.remark));
    tiles += element("div", element("dt", Html(fact.label)) + element("dd", value));
  }
  return tiles.empty() ? tiles : element("dl", {{"class", "facts"}}, tiles);
}

Html contents_of(const Page& page) {
  Html items;
  std::size_t count = 0;
  for (const Section& section : page.sections) {
    if (section.content.empty()) continue;
    ++count;
    items += element("li", element("a", {{"href", "#" + section.id}}, section.title));
  }
  if (count < 2) return {};
  return element("nav", {{"aria-label", "Sections"}}, element("ul", items));
}

Html headline(const Page& page) {
  Html top = element("h1", Html(page.title));
  if (page.status)
    top += element("span", {{"class", class_of(page.status->mood)}}, page.status->text);
  top += element("button", {{"id", "theme"}, {"type", "button"}, {"hidden", ""}}, "light / dark");
  Html head = element("div", {{"class", "top"}}, top);
  if (!page.subtitle.empty()) head += element("p", {{"class", "sub"}}, page.subtitle);
  head += facts_of(page);
  for (const std::string& note : page.notes) head += element("p", {{"class", "note"}}, note);
  return element("header", head + contents_of(page));
}

}  // namespace

std::string render(const Page& page) {
  Html main;
  for (const Section& section : page.sections) {
    if (section.content.empty()) continue;
    main +=
        element("section", {{"id", section.id}, {"aria-labeledby", section.id + "-title"}},
                element("h2", {{"id", section.id + "-title"}}, section.title) + section.content);
  }
  Html body = headline(page) + element("main", main);
  if (!page.footer.empty()) body += element("footer", Html(page.footer));
  body += raw_element("script", kScript);
  return document(element("html", {{"lang", "en"}}, head_of(page) + element("body", body)));
}

Html html_table(const Table& table) {
  const auto cell = [&](Literal tag, const std::string& text, std::size_t column,
                        const Attributes& more) {
    const bool number = table.columns()[column].align == Align::right;
    Attributes attributes = more;
    if (number) attributes.push_back({"class", "n"});
    if (!number && text.size() > 60) attributes.push_back({"class", "long"});
    return element(tag, attributes, text);
  };
  Html head;
  for (std::size_t i = 0; i < table.columns().size(); ++i)
    head += cell("th", table.columns()[i].header, i, {{"scope", "col"}});
  Html rows;
  for (const std::vector<std::string>& row : table.rows()) {
    Html cells;
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      const std::string text = i < row.size() ? row[i] : std::string();
      cells += i == 0 ? cell("th", text, i, {{"scope", "row"}}) : cell("td", text, i, {});
    }
    rows += element("tr", cells);
  }
  // The focusable container allows scrolling with the keyboard.
  return element(
      "div", {{"class", "scroll"}, {"tabindex", "0"}, {"role", "group"}, {"aria-label", "table"}},
      element("table", element("thead", element("tr", head)) + element("tbody", rows)));
}

Html paragraph(std::string_view text) { return element("p", Html(text)); }

Html cards(const std::vector<Html>& figures) {
  Html all;
  for (const Html& figure : figures) all += figure;
  return all.empty() ? all : element("div", {{"class", "cards"}}, all);
}

Html folded(const std::string& title, const Html& content) {
  return content.empty() ? content : element("details", element("summary", Html(title)) + content);
}

Html command(std::string_view text) { return element("pre", {{"class", "command"}}, Html(text)); }

}  // namespace trainctl::report
