#include "report/compare/junit.hpp"

#include "support/catch.hpp"

#include <limits>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

TEST_CASE("JUnit: settings and conditions are the test cases of a suite") {
  std::vector<BenchRow> rows{{"num_workers=0", {}, {Trial{.total_s = 2}, Trial{.total_s = 3}}, {}},
                             {"num_workers=4", {}, {}, TrialFailure{9, "no file"}},
                             {"num_workers=8", {}, {}, {}}};
  std::vector<Finding> findings(3);
  findings[0].verdict = Verdict::pass;
  findings[1].verdict = Verdict::fail;
  findings[1].why = "the interval [-8.00, -6.00] % is beyond the bound";
  findings[2].verdict = Verdict::inconclusive;
  findings[2].why = "12 repeats would decide";
  for (Finding& finding : findings) finding.technique = "num_workers=4";
  for (Finding& finding : findings) finding.condition.text = "samples_per_s<-5%";
  CHECK(junit_text("trainctl bench", bench_cases(rows, findings, "bench a.yaml")) ==
        R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
 <testsuite name="trainctl bench" tests="6" failures="1" errors="1" skipped="2" time="5.000">
  <testcase classname="bench a.yaml" name="num_workers=0" time="5.000"/>
  <testcase classname="bench a.yaml" name="num_workers=4" time="0.000">
    <error message="exit 9: no file"/>
  </testcase>
  <testcase classname="bench a.yaml" name="num_workers=8" time="0.000">
    <skipped message="never ran"/>
  </testcase>
  <testcase classname="bench a.yaml gate" name="num_workers=4: samples_per_s&lt;-5%" time="0.000"/>
  <testcase classname="bench a.yaml gate" name="num_workers=4: samples_per_s&lt;-5%" time="0.000">
    <failure message="the interval [-8.00, -6.00] % is beyond the bound"/>
  </testcase>
  <testcase classname="bench a.yaml gate" name="num_workers=4: samples_per_s&lt;-5%" time="0.000">
    <skipped message="inconclusive: 12 repeats would decide"/>
  </testcase>
 </testsuite>
</testsuites>
)");
}

TEST_CASE("JUnit: names and messages are escaped") {
  const std::vector<JunitCase> cases{
      {.group = "a\"b'c<d>&e", .name = "\x1b[31m\n]]>\xff\xEF\xBF\xBFgröße", .seconds = 0}};
  const std::string text = junit_text("s", cases);
  CHECK_THAT(text, Contains("a&quot;b&apos;c&lt;d&gt;&amp;e") && Contains("\\x1b[31m") &&
                       Contains("]]&gt;") && Contains("größe"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\xff') == std::string::npos);
  CHECK(text.find("\xEF\xBF\xBF") == std::string::npos);
}

TEST_CASE("JUnit: an empty suite and an invalid time are written") {
  CHECK_THAT(junit_text("s", {}), Contains("tests=\"0\""));
  const std::vector<JunitCase> cases{{.group = "g", .name = "n"},
                                     {.seconds = std::numeric_limits<double>::quiet_NaN()}};
  CHECK_THAT(junit_text("s", cases), Contains("time=\"0.000\"") && !Contains("nan"));
}
