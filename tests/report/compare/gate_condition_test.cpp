#include "base/error.hpp"
#include "report/compare/gate.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

const std::vector<std::string> kMetrics{"train/loss", "val/loss", "val/accuracy"};

std::string mistakes(const std::string& text) {
  try {
    (void)parse_conditions(text, kMetrics);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("gate conditions: a condition has a metric, a side and a bound in percent or points") {
  const auto all =
      parse_conditions(" samples_per_s < -2.5% ,rss_mb>+10%, val/accuracy<-0.5pt", kMetrics);
  REQUIRE(all.size() == 3);
  CHECK(all[0].metric == "samples_per_s");
  CHECK(all[0].side == Side::below);
  CHECK(all[0].bound == -2.5);
  CHECK(all[0].unit == Unit::percent);
  CHECK(all[0].text == "samples_per_s<-2.5%");
  CHECK(all[1].side == Side::above);
  CHECK(all[1].bound == 10);
  CHECK(all[2].metric == "val/accuracy");
  CHECK(all[2].bound == -0.5);
  CHECK(all[2].unit == Unit::points);
  CHECK(parse_conditions("samples_per_s<+5%", {}).front().bound == 5);  // a gain is required
  CHECK(parse_conditions("total_s>0%", {}).front().bound == 0);
}

TEST_CASE("gate conditions: all mistakes are reported at once with their columns") {
  const std::string text = mistakes("sample_per_s<-2.5%, rss_mb>10, val/acuracy<-1pt");
  CHECK_THAT(text, Contains("--fail-on has 3 mistakes") &&
                       Contains("did you mean 'samples_per_s'?") &&
                       Contains("column 28: the number must end with") &&
                       Contains("did you mean 'val/accuracy'?"));
  CHECK_THAT(text,
             Contains("    sample_per_s<-2.5%, rss_mb>10, val/acuracy<-1pt\n    ^~~~~~~~~~~~"));
}

TEST_CASE("gate conditions: an invalid condition is an error that states what is expected") {
  CHECK_THAT(mistakes(""), Contains("the condition is empty") && Contains("samples_per_s<-2.5%"));
  CHECK_THAT(mistakes("total_s>3%,"), Contains("column 12: the condition is empty"));
  CHECK_THAT(mistakes("total_s"),
             Contains("the condition must contain '<' or '>': metric<-2.5% or metric>+2.5%"));
  CHECK_THAT(mistakes("total_s=3%"), Contains("the comparison must be '<' or '>'"));
  CHECK_THAT(mistakes("total_s>=3%"), Contains("the comparison must be '<' or '>'"));
  CHECK_THAT(mistakes("total_s>>3%"), Contains("the comparison must be '<' or '>'"));
  CHECK_THAT(mistakes(">3%"), Contains("the metric before the comparison is missing"));
  CHECK_THAT(mistakes("total_s>"), Contains("the number must end"));
  CHECK_THAT(mistakes("total_s>%"), Contains("is not a number"));
  CHECK_THAT(mistakes("total_s>three%"), Contains("'three' is not a number"));
  CHECK_THAT(mistakes("total_s>1e999%"), Contains("is not a number"));
  CHECK_THAT(mistakes("total_s>nan%"), Contains("is not a number"));
  CHECK_THAT(mistakes("total_s>+-3%"), Contains("is not a number"));
  CHECK_THAT(mistakes("samples_per_s<-100%"), Contains("the bound must be above -100 %"));
  CHECK_THAT(mistakes("total_s>3pt"), Contains("total_s is not a ratio"));
  CHECK_THAT(mistakes("total_s>3%,total_s>5%"), Contains("already has a bound with '>'"));
  CHECK_THAT(mistakes("gpu_util<-3%"), Contains("unknown metric 'gpu_util'"));
}

TEST_CASE("gate conditions: control characters are escaped in errors") {
  CHECK_THAT(mistakes("\x1b[31m<-3%"), Contains("\\x1b") && !Contains("\x1b["));
}
