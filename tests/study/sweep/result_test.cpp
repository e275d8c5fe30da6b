#include "study/sweep/sweep.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::study;
using report::Better;

namespace {

const Ranking kAccuracy{"val/accuracy", Better::higher};

constexpr const char* kResult =
    R"({"exit_code": 0, "message": "", "epochs": 3, "wall_s": 1.5, "train": {"loss": 0.5},
        "val": {"accuracy": 0.8, "loss": "nan"},
        "best": {"metric": "val/accuracy", "value": 0.9, "epoch": 2}})";

}  // namespace

TEST_CASE("run_end: reads the values of result.json") {
  const TempFolder folder;
  CHECK_FALSE(run_end(folder.path(), "", kAccuracy));
  put_text(folder / "result.json", kResult);
  const auto end = run_end(folder.path(), "", kAccuracy);
  REQUIRE(end);
  CHECK(end->exit_code == 0);
  CHECK(end->epochs == 3);
  CHECK(end->wall_s == 1.5);
  REQUIRE(end->metrics.size() == 2);
  CHECK(end->metrics[1] == std::pair<std::string, double>("val/accuracy", 0.8));
  CHECK(end->value == 0.9);
  CHECK(run_end(folder.path(), "", {"train/loss", Better::lower})->value == 0.5);
}

TEST_CASE("run_end: ignores the result of an earlier or unfinished start") {
  const TempFolder folder;
  put_text(folder / "result.json", kResult);
  CHECK_FALSE(run_end(folder.path(), result_hash(folder.path()), kAccuracy));
  put_text(folder / "result.json", R"({"exit_code": null, "verdict": "unfinished"})");
  CHECK_FALSE(run_end(folder.path(), "", kAccuracy));
  put_text(folder / "result.json", R"({"exit_code": 0, "epo)");
  CHECK_FALSE(run_end(folder.path(), "", kAccuracy));
}

TEST_CASE("best_in_table: returns the value of the best epoch for any monitor") {
  const TempFolder folder;
  put_text(folder / "epochs.csv",
           "epoch,train/loss,val/accuracy\n1,0.9,0.5\n2,0.4,0.7\n3,0.6,\n4,nan,0.6\n");
  CHECK(best_in_table(folder / "epochs.csv", kAccuracy) == 0.7);
  CHECK(best_in_table(folder / "epochs.csv", {"train/loss", Better::lower}) == 0.4);
  CHECK_FALSE(best_in_table(folder / "epochs.csv", {"val/loss", Better::lower}));
  CHECK_FALSE(best_in_table(folder / "none.csv", kAccuracy));
}

TEST_CASE("last_log_line: returns the last line that is not empty") {
  const TempFolder folder;
  put_text(folder / "0001.log", "one\nerror: no space left\n\n  \n");
  CHECK(last_log_line(folder / "0001.log") == "error: no space left");
  CHECK(last_log_line(folder / "none.log").empty());
}
