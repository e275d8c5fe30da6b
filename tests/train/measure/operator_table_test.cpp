#include "support/catch.hpp"
#include "train/measure/profiler.hpp"

#include <cmath>
#include <string>

using namespace trainctl::train;

namespace {

OperatorCall call(const char* name, std::uint64_t start_us, std::uint64_t end_us,
                  std::uint64_t thread = 1) {
  return {.name = name, .thread = thread, .start_ns = start_us * 1000, .end_ns = end_us * 1000};
}

const OperatorRow& row(const std::vector<OperatorRow>& rows, const std::string& name) {
  for (const OperatorRow& one : rows) {
    if (one.name == name) return one;
  }
  FAIL("no row " << name);
  return rows.front();
}

}  // namespace

TEST_CASE("operator_rows: self time excludes the time of nested operators") {
  const auto rows = operator_rows({call("linear", 0, 10'000), call("t", 1000, 2000),
                                   call("addmm", 2000, 9000), call("copy", 3000, 4000),
                                   call("other", 3500, 5500, 2), call("t", 11'000, 11'500)});
  CHECK(row(rows, "linear").self_ms == Approx(2));
  CHECK(row(rows, "linear").total_ms == Approx(10));
  CHECK(row(rows, "addmm").self_ms == Approx(6));
  CHECK(row(rows, "other").self_ms == Approx(2));
  CHECK(row(rows, "t").calls == 2);
  CHECK(row(rows, "t").self_ms == Approx(1.5));
  CHECK(rows.front().name == "addmm");
}

TEST_CASE("operator_rows: overlapping calls reduce their parent's self time once") {
  const auto rows = operator_rows({call("step", 0, 10'000), call("a", 1000, 8000),
                                   call("b", 5000, 10'000), call("c", 6000, 7000)});
  CHECK(row(rows, "step").self_ms == Approx(1));
  CHECK(row(rows, "a").self_ms == Approx(7));
  CHECK(row(rows, "b").self_ms == Approx(4));
  CHECK(row(rows, "c").self_ms == Approx(1));
}

TEST_CASE("operator_rows: self time is never negative, even for an operator without an end") {
  const auto rows = operator_rows({call("whole", 0, 3000), call("a", 0, 1000),
                                   call("b", 1000, 3000), call("endless", 2000, 500)});
  CHECK(row(rows, "whole").self_ms == 0);
  CHECK(row(rows, "endless").self_ms == 0);
  CHECK(row(rows, "endless").total_ms == 0);
  CHECK(row(rows, "b").self_ms == Approx(2));
  CHECK_THAT(operators_as_text(rows), !Contains("-"));
}

TEST_CASE("operators_as_text: the shares of the time sum to 100 %") {
  std::vector<OperatorCall> calls{call("outer", 0, 997), call("inner", 3, 500)};
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::string name = "op" + std::to_string(i);
    calls.push_back(call(name.c_str(), 10 + 7 * i, 900 - 3 * i));
    calls.push_back(call(name.c_str(), 2000 + 40 * i, 2000 + 41 * i, 2));
    calls.back().on_device = i % 2 == 0;
  }
  const std::string text = operators_as_text(operator_rows(calls));
  double sum = 0;
  int rows = 0;
  for (std::size_t sign = text.find('%'); sign != std::string::npos;
       sign = text.find('%', sign + 1)) {
    const double share = std::stod(text.substr(sign - 5, 5));
    CHECK(share >= 0);
    CHECK(share <= 100);
    sum += share;
    ++rows;
  }
  CHECK(rows == 32);
  CHECK(std::abs(sum - 100) <= 0.05 * rows + 1e-9);
}

TEST_CASE("operator_rows: memory is attributed to the innermost operator") {
  OperatorCall taken = call("[memory]", 1500, 1500);
  taken.bytes = 3'000'000;
  OperatorCall freed = call("[memory]", 5000, 5000);
  freed.bytes = -1'000'000;
  OperatorCall outside = call("[memory]", 20'000, 20'000);
  outside.bytes = 7;
  const auto rows =
      operator_rows({call("linear", 0, 10'000), call("empty", 1000, 2000), taken, freed, outside});
  REQUIRE(rows.size() == 2);
  CHECK(row(rows, "empty").mbytes == Approx(3));
  CHECK(row(rows, "linear").mbytes == Approx(-1));
}

TEST_CASE(
    "operator_rows: calls with different shapes are separate rows that merge_shapes combines") {
  OperatorCall small = call("mm", 0, 1000);
  small.shapes = {{2, 3}, {}};
  OperatorCall large = call("mm", 2000, 5000);
  large.shapes = {{200, 300}, {}};
  const auto rows = operator_rows({small, large});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].shapes == "[200, 300] []");
  const auto merged = merge_shapes(rows);
  REQUIRE(merged.size() == 1);
  CHECK(merged[0].calls == 2);
  CHECK(merged[0].self_ms == Approx(4));
}

TEST_CASE(
    "operators_as_csv: fields with commas or quotes are quoted, and the text lists at "
    "most 40 rows") {
  OperatorCall one = call("say \"hi\", twice", 0, 1000);
  one.shapes = {{2, 3}};
  const std::string csv = operators_as_csv(operator_rows({one}));
  CHECK(csv ==
        "operator,device,shapes,calls,self_ms,total_ms,gflop,mb\n"
        "\"say \"\"hi\"\", twice\",cpu,\"[2, 3]\",1,1,1,0,0\n");
  std::vector<OperatorCall> many;
  for (int i = 0; i < 50; ++i) many.push_back(call(("op" + std::to_string(i)).c_str(), 0, 1));
  CHECK_THAT(operators_as_text(operator_rows(many)), Contains("... and 10 more in operators.csv"));
}
