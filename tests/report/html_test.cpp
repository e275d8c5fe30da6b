#include "report/html/html.hpp"

#include "base/error.hpp"
#include "report/html/page.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

const std::string kHostile = "</script><svg onload=alert(1)>\"'&";

}  // namespace

TEST_CASE("Html: text and attributes are escaped") {
  const std::string markup = element("p", {{"title", kHostile}}, kHostile).markup();
  CHECK(markup ==
        "<p title=\"&lt;/script&gt;&lt;svg onload=alert(1)&gt;&quot;&#39;&amp;\">"
        "&lt;/script&gt;&lt;svg onload=alert(1)&gt;&quot;&#39;&amp;</p>");
}

TEST_CASE("Html: invalid UTF-8, control characters and direction overrides are replaced") {
  const std::string replaced = "\xEF\xBF\xBD";
  CHECK(escaped("a\xFFz") == "a" + replaced + "z");
  CHECK(escaped(std::string_view("a\0b\x1b[31m", 8)) == "a" + replaced + "b" + replaced + "[31m");
  CHECK(escaped("a\xE2\x80\xAEz") == "a" + replaced + "z");  // this is a right-to-left override
  CHECK(escaped("a\xC2\x85z") == "a" + replaced + "z");  // this is a control character of two bytes
  CHECK(escaped("\xC3\xA9 \xE2\x96\x81\n") == "\xC3\xA9 \xE2\x96\x81\n");
}

TEST_CASE("Html: external links, scripts and inline styles are errors") {
  CHECK_NOTHROW(element("a", {{"href", "#time"}}, "time"));
  CHECK_THROWS_AS(element("a", {{"href", "http://example.com"}}, "x"), Error);
  CHECK_THROWS_AS(element("a", {{"href", "javascript:alert(1)"}}, "x"), Error);
  CHECK_THROWS_AS(element("img", {{"src", "http://example.com/a.png"}}), Error);
  CHECK_THROWS_AS(element("p", {{"onclick", "x"}}, "x"), Error);
  CHECK_THROWS_AS(element("p", {{"style", "x"}}, "x"), Error);
}

TEST_CASE("Html: void elements have no end tag, and shapes have one") {
  CHECK(element("meta", {{"charset", "utf-8"}}).markup() == "<meta charset=\"utf-8\">");
  CHECK(element("rect", {{"x", "1"}}, element("title", Html("t"))).markup() ==
        "<rect x=\"1\"><title>t</title></rect>");
}

TEST_CASE("base64: the examples of RFC 4648 are encoded") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xFF\xFE\xFD") == "//79");
}

TEST_CASE("HTML page: lists its sections, omits empty ones and forbids requests") {
  Page page;
  page.title = kHostile;
  page.facts = {{"seed", "7"}, {"restarts", ""}};
  page.sections = {
      {"one", "One", paragraph("text")}, {"two", "Two", {}}, {"three", "Three", paragraph("x")}};
  const std::string text = render(page);
  CHECK_THAT(text, StartsWith("<!doctype html>\n<html lang=\"en\"><head>"));
  CHECK_THAT(text, Contains("default-src &#39;none&#39;"));
  CHECK_THAT(text, Contains("<section id=\"one\" aria-labeledby=\"one-title\">"));
  CHECK_THAT(text, Contains("<a href=\"#three\">Three</a>"));
  CHECK(text.find("id=\"two\"") == std::string::npos);
  CHECK(text.find("restarts") == std::string::npos);
  CHECK(text.find("<svg onload") == std::string::npos);
  CHECK(text.find("://") == text.find("://www.w3.org/2000/svg"));  // a name that is not fetched
}

TEST_CASE("html_table: a table scrolls in its container and aligns numbers") {
  Table table({{"name", Align::left}, {"value"}});
  table.add({"<b>", "12"});
  const std::string text = html_table(table).markup();
  CHECK_THAT(text, StartsWith("<div class=\"scroll\""));
  CHECK_THAT(text, Contains("<th scope=\"row\">&lt;b&gt;</th><td class=\"n\">12</td>"));
}
