#include "report/html/page.hpp"

#include "base/sha256.hpp"
#include "report/html/assets.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::report {
namespace {

const char* class_of(Mood mood) {
  switch (mood) {
    case Mood::good: return "pill good";
    case Mood::bad: return "pill bad";
    case Mood::waiting: return "pill wait";
  }
  return "pill wait";
}

std::string hash_of(Literal text) {
  return fmt::format("'sha256-{}'", base64(as_text(sha256(text.view()))));
}

Html head_of(const Page& page) {
  const std::string policy = fmt::format(
      "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; "
      "form-action 'none'",
      hash_of(page_style()), hash_of(page_script()));
  return element(
      "head",
      element("meta", {{"charset", "utf-8"}}) +
          element("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", policy}}) +
          element("meta",
                  {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
          element("meta", {{"name", "color-scheme"}, {"content", "light dark"}}) +
          element("meta", {{"name", "generator"}, {"content", "trainctl"}}) +
          element("title", Html(page.title)) + raw_element("style", page_style()));
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
        element("section", {{"id", section.id}, {"aria-labelledby", section.id + "-title"}},
                element("h2", {{"id", section.id + "-title"}}, section.title) + section.content);
  }
  Html body = headline(page) + element("main", main);
  if (!page.footer.empty()) body += element("footer", Html(page.footer));
  body += raw_element("script", page_script());
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
  // It scrolls by the keyboard, too.
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

Html preformatted(std::string_view text) { return element("pre", {{"tabindex", "0"}}, Html(text)); }

Html command(std::string_view text) { return element("pre", {{"class", "command"}}, Html(text)); }

}  // namespace trainctl::report
