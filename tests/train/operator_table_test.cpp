#include "train/operator_table.hpp"

#include "support/catch.hpp"

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

TEST_CASE("what an operator spends in those it calls is theirs") {
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

TEST_CASE("memory is the operator's within which it was allocated or freed") {
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

TEST_CASE("rows are kept apart by shape, and merged by name") {
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

TEST_CASE("the tables name their columns, and the CSV keeps commas within quotes") {
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
