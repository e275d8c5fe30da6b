#include "report/text/job_results.hpp"

#include "support/catch.hpp"

#include <cmath>

using namespace trainctl;

namespace {

report::RunRecord evaluated() {
  report::RunRecord record;
  record.add(0, events::TableRow{"test/confusion_matrix", 0, 0, {30, 1}});
  record.add(0, events::TableRow{"test/confusion_matrix", 0, 1, {2, 1200}});
  record.add(1, events::TableRow{"test/confusion_matrix", 0, 0, {9, 9}});
  record.add(0, events::Evaluated{.split = "test",
                                  .checkpoint = "best.safetensors",
                                  .samples = 1233,
                                  .outputs = 2,
                                  .targets = "classes",
                                  .metrics = {{"test/loss", 0.0712}, {"test/accuracy", 0.5}},
                                  .wall_s = 0.8});
  return record;
}

}  // namespace

TEST_CASE("evaluation_text: metrics that are tables follow the table of scalar metrics") {
  CHECK(report::evaluation_text(evaluated(), {}) ==
        "best.safetensors on split test: 1,233 samples in 0.80 s\n"
        "\n"
        " metric      test\n"
        "------------------\n"
        " loss      0.0712\n"
        " accuracy  0.5000\n"
        "\n"
        " confusion_matrix   0     1\n"
        "----------------------------\n"
        " 0                 30     1\n"
        " 1                  2  1200\n");
}

TEST_CASE("evaluation_text: a table wider than the terminal is omitted") {
  const std::string text = report::evaluation_text(evaluated(), {.width = 20});
  CHECK(text.find("confusion_matrix") == std::string::npos);
  CHECK_THAT(text, Contains("accuracy"));
}

TEST_CASE("RunRecord: keeps only the tables of the last epoch of rank 0") {
  report::RunRecord record = evaluated();
  REQUIRE(record.tables.size() == 2);
  CHECK(record.tables[0].counts == std::vector<std::int64_t>{30, 1});
  record.add(0, events::TableRow{"val/confusion_matrix", 1, 0, {5, 5}});
  REQUIRE(record.tables.size() == 1);
  CHECK(record.tables[0].epoch == 1);
}

TEST_CASE("evaluation_document: non-finite numbers are strings") {
  report::RunRecord record;
  record.add(0, events::Evaluated{.split = "val", .metrics = {{"val/loss", std::nan("")}}});
  const Json document = report::evaluation_document(record, {});
  CHECK(document["metrics"]["loss"] == "nan");
  CHECK(document["tables"] == Json::object());
  CHECK(document["world_size"] == 1);
}
