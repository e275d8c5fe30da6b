#include "report/diagnosis/ranks.hpp"

#include "report/invented.hpp"
#include "report/record/run_result.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/run_summary.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <limits>
#include <utility>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Returns an epoch of 10 steps of 1 s, in which the rank works for `work_s` and waits otherwise.
events::RankEpoch rank_epoch(int rank, std::int64_t epoch, double work_s) {
  events::RankEpoch ended;
  ended.rank = rank;
  ended.epoch = epoch;
  ended.global_step = 10 * (epoch + 1);
  ended.steps = 10;
  ended.wall_s = 10;
  ended.data_wait_s = 0.5;
  ended.step_s = 10 * work_s;
  ended.allreduce_exposed_s = 9.5 - 10 * work_s;
  ended.overlapped_s = 3;
  ended.exposed_s = 1;
  ended.overlap = 0.75;
  ended.payload_bytes = 40960;
  ended.wire_bytes = 40960;
  ended.bucket_bytes = {1024, 3072};
  return ended;
}

RunRecord run_of(const std::vector<double>& work_s) {
  RunRecord record = invented::run();
  for (std::size_t i = 0; i < work_s.size(); ++i) {
    const int rank = static_cast<int>(i);
    record.add(rank, events::Hello{.rank = rank, .host = "node7", .device = "cpu"});
    record.add(rank, rank_epoch(rank, 0, 0.9));  // this is the warm-up
    record.add(rank, rank_epoch(rank, 1, work_s[i]));
    record.add(rank, rank_epoch(rank, 2, work_s[i]));
  }
  return record;
}

}  // namespace

TEST_CASE("rank_rows: rows are means per step over the epochs after the first") {
  const auto rows = rank_rows(run_of({0.55, 0.55, 0.75}));
  REQUIRE(rows.size() == 3);
  const RankRow& last = rows[2];
  CHECK(last.rank == 2);
  CHECK(last.host == "node7");
  CHECK(last.steps == 20);
  CHECK(last.step_s == Approx(1));
  CHECK(last.data_wait_s == Approx(0.05));
  CHECK(last.work_s == Approx(0.75));
  CHECK(last.exposed_s == Approx(0.2));
  CHECK(last.overlap == Approx(0.75));
  CHECK(last.wire_bytes == 4096);
  CHECK(last.slowdown == Approx(0.8 / 0.6 - 1));
  CHECK(rows[0].slowdown == Approx(0).margin(1e-12));
}

TEST_CASE("straggler: found by its work, even if all steps take the same time") {
  const auto rows = rank_rows(run_of({0.55, 0.55, 0.75}));
  REQUIRE(straggler(rows) != nullptr);
  CHECK(straggler(rows)->rank == 2);
  CHECK_THAT(ranks_verdict(rows), Contains("rank 2 is a straggler") &&
                                      Contains("0.80 s per step, 33 % more than the median rank"));
  CHECK(straggler_json(rows)["rank"] == 2);
}

TEST_CASE("straggler: a rank within 10 % of the median is not a straggler") {
  const auto rows = rank_rows(run_of({0.55, 0.55, 0.605}));
  CHECK(straggler(rows) == nullptr);
  REQUIRE(slowest(rows) != nullptr);
  CHECK(slowest(rows)->rank == 2);
  CHECK_THAT(ranks_verdict(rows), Contains("the slowest is rank 2 (+9 %)"));
  CHECK(straggler_json(rows).is_null());
}

TEST_CASE("ranks: one rank or ranks without steps have no table") {
  CHECK(rank_rows(invented::run()).empty());
  CHECK(rank_rows(run_of({0.5})).empty());
  RunRecord record;
  for (const int rank : {0, 1}) record.add(rank, events::RankEpoch{.rank = rank});
  CHECK(rank_rows(record).empty());
  CHECK(slowest({}) == nullptr);
  CHECK(ranks_verdict({}).empty());
  CHECK(ranks_json({}).is_array());
  const Json result = result_document(invented::run(), invented::ending());
  CHECK(result["ranks"].empty());
  CHECK(result["straggler"].is_null());
}

TEST_CASE("ranks: summary and result show each rank") {
  const RunRecord record = run_of({0.55, 0.55, 0.75});
  const std::string text = summary_text(record, invented::ending(), {});
  CHECK_THAT(text, Contains("  ranks       rank 2 is a straggler") &&
                       Contains("Exposed all-reduce") && !Contains("node7"));
  CHECK_THAT(text,
             Contains("\n    2  1.00 s    50.0 ms  0.75 s              0.20 s    4.0 KiB     75 "
                      "%     +33 %\n"));
  const Json result = result_document(record, invented::ending());
  REQUIRE(result["ranks"].size() == 3);
  CHECK(result["ranks"][1]["rank"] == 1);
  CHECK(result["ranks"][1]["allreduce_exposed_s"].get<double>() == Approx(0.4));
  CHECK(result["ranks"][1]["wire_bytes"] == 4096);
  CHECK(result["straggler"]["slowdown"].get<double>() == Approx(1.0 / 3));
  for (const std::string& line : golden::lines_of(to_text(ranks_table(rank_rows(record)), {})))
    CHECK(display_width(line) <= 100);
}

TEST_CASE("ranks: hosts are shown if there are several") {
  RunRecord record = run_of({0.5, 0.5});
  record.hellos[1].host =
      "node\x1b"
      "8";
  const std::string text = to_text(ranks_table(rank_rows(record)), {});
  CHECK_THAT(text, Contains("host") && Contains("node7") && Contains("node\\x1b8"));
}

TEST_CASE("ranks: only the slowest of many ranks are shown, and ranks.csv is named") {
  std::vector<double> work(100, 0.4);
  work[57] = 0.8;
  const auto rows = rank_rows(run_of(work));
  const Table table = ranks_table(rows);
  CHECK(table.rows().size() == 8);
  CHECK(table.rows()[0][0] == "57");
  CHECK_THAT(ranks_verdict(rows), Contains("8 of 100 ranks are shown, ranks.csv has all"));
  CHECK(ranks_json(rows).size() == 100);
}

TEST_CASE("ranks: work and exchange that are not known are shown as such, not as 0") {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  RunRecord record = invented::run();
  events::RankEpoch epoch = rank_epoch(0, 0, 0.5);
  epoch.step_s = epoch.allreduce_exposed_s = kUnknown;
  epoch.overlapped_s = epoch.exposed_s = epoch.overlap = kUnknown;
  const auto count = static_cast<int>(GENERATE(2, 40));
  for (epoch.rank = 0; epoch.rank < count; ++epoch.rank) record.add(epoch.rank, epoch);
  const auto rows = rank_rows(record);
  REQUIRE(std::cmp_equal(rows.size(), count));
  CHECK(slowest(rows) == nullptr);
  CHECK(straggler_json(rows).is_null());
  CHECK_THAT(ranks_verdict(rows), Contains("not known") && Contains("cuda_graphs=false"));
  const Table table = ranks_table(rows);
  CHECK(table.rows()[0] ==
        std::vector<std::string>{"0", "node7", "1.00 s", "50.0 ms", "-", "-", "4.0 KiB", "-", "-"});
  const Json first = ranks_json(rows)[0];
  for (const char* key : {"work_s", "allreduce_exposed_s", "overlap", "slowdown"})
    CHECK(first.at(key).is_null());
  CHECK(first.at("data_wait_s") == 0.05);
  const std::string line = [&] {
    const TempFolder folder;
    make_csv_sink(folder.path(), {})->on_event(0, epoch);
    return golden::lines_of(golden::read(folder / "ranks.csv")).at(1);
  }();
  CHECK_THAT(line, Contains(",10,10,10,0.5,,,,,,40960,40960,1024 3072"));
  const Json result = result_document(record, invented::ending());
  CHECK(result["straggler"].is_null());
}

TEST_CASE("ranks.csv: has a row per rank and epoch, and is not written for one rank") {
  const TempFolder folder;
  {
    const auto sink = make_csv_sink(folder.path(), {});
    sink->on_event(0, invented::epoch(0));
    sink->close();
    CHECK_FALSE(std::filesystem::exists(folder / "ranks.csv"));
    sink->on_event(1, rank_epoch(1, 0, 0.5));
    sink->on_event(0, rank_epoch(0, 0, 0.75));
    sink->close();
  }
  make_csv_sink(folder.path(), {})->on_event(1, rank_epoch(1, 1, 0.5));
  CHECK(golden::read(folder / "ranks.csv") ==
        "epoch,rank,step,steps,wall_s,data_wait_s,work_s,allreduce_exposed_s,overlapped_s,"
        "exposed_s,overlap,payload_bytes,wire_bytes,bucket_bytes\n"
        "1,1,10,10,10,0.5,5,4.5,3,1,0.75,40960,40960,1024 3072\n"
        "1,0,10,10,10,0.5,7.5,2,3,1,0.75,40960,40960,1024 3072\n"
        "2,1,20,10,10,0.5,5,4.5,3,1,0.75,40960,40960,1024 3072\n");
}
