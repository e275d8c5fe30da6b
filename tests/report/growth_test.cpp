#include "support/growth.hpp"

#include "report/compare/baseline.hpp"
#include "report/compare/comparison.hpp"
#include "report/html/sweep_page.hpp"
#include "report/record/run_files.hpp"
#include "report/record/worst_predictions.hpp"
#include "report/search/sweep.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <functional>
#include <string>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// A file of a run folder: a header, and the line of each step or epoch, counted from 1.
struct LongFile {
  const char* name;
  std::string header;
  std::function<std::string(std::size_t)> line;
};

std::string step_line(std::size_t i) {
  return fmt::format(
      R"({{"type":"step","epoch":1,"step":{},"elapsed_s":1.5,"lr":0.1,"train/loss":2.25}})", i);
}

std::string epoch_line_of_json(std::size_t i) {
  return fmt::format(R"({{"type":"epoch","epoch":{},"step":{},"train/loss":2.25}})", i, i);
}

constexpr const char* kEpochs = "epoch,step,lr,train/loss,val/loss,wall_s,samples";

std::string epoch_row(std::size_t i) { return fmt::format("{},{},0.1,2.25,2.5,1.5,100", i, i); }

/// Returns a sweep whose runs have different learning rates, and no folders.
Sweep sweep_of(std::size_t runs, std::size_t settings) {
  Sweep sweep{.config = "a.yaml", .folder = "sweep", .kind = "grid", .monitor = "val/loss"};
  for (std::size_t i = 0; i < runs; ++i) {
    const double number = 1.0 + static_cast<double>(i);
    sweep.runs.push_back({.id = std::to_string(i),
                          .group = i % settings,
                          .overrides = {{"optimizer.lr", fmt::format("{}", 1e-6 * number)},
                                        {"name", fmt::format("n{}", i)}},
                          .status = SweepStatus::ok,
                          .exit_code = 0,
                          .metrics = {{"val/loss", 0.5}},
                          .value = 1.0 / number,
                          .run_dir = "no-such-folder/" + std::to_string(i),
                          .epochs = 3});
  }
  return sweep;
}

Trial trial_of_one_epoch() { return {.total_s = 2, .epoch_s = {1.5}, .samples_per_s = 100}; }

/// Returns the text that `bench --save` writes.
std::string saved_bench(std::size_t rows, std::size_t trials) {
  std::vector<BenchRow> bench(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    bench[i].technique = fmt::format("num_workers={}", i);
    bench[i].settings = {{"loader.num_workers", std::to_string(i)}};
    bench[i].trials.assign(trials, trial_of_one_epoch());
  }
  return to_line(bench_document(bench, {}));
}

}  // namespace

TEST_CASE("growth: reading the files of a run is linear in their lines") {
  const std::vector<LongFile> files{
      {"metrics.jsonl", step_line(1), [](std::size_t i) { return step_line(i + 1); }},
      {"metrics.jsonl", "{}", epoch_line_of_json},
      {"metrics.jsonl", "damaged", [](std::size_t) { return "damaged"; }},
      {"epochs.csv", kEpochs, epoch_row},
      {"epochs.csv", kEpochs, [](std::size_t i) { return epoch_row(i % 7 + 1); }},
      {"epochs.csv", kEpochs, [](std::size_t) { return "damaged"; }},
      {"ranks.csv", "epoch,rank,step,steps,wall_s,data_wait_s,work_s",
       [](std::size_t i) { return fmt::format("{},{},{},10,1.5,0.5,1", i / 4 + 1, i % 4, i); }},
      {"confusion_matrix.csv", "epoch,split,class,cat,dog",
       [](std::size_t i) { return fmt::format("{},val,{},8,2", i / 2 + 1, i % 2); }},
  };
  for (const LongFile& file : files) {
    const TempFolder folder;
    CAPTURE(file.name, file.line(1));
    const auto reading = [&](std::size_t lines) {
      const fs::path run = folder / std::to_string(lines);
      std::string text = file.header + "\n";
      for (std::size_t i = 1; i <= lines; ++i) text += file.line(i) + "\n";
      put_text(run / "config.resolved.yaml", "name: x\n");
      put_text(run / file.name, text);
      return [run] { (void)read_run(run); };
    };
    CHECK(growth_per_doubling(reading, 200) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: comparing the losses of runs is linear in their steps") {
  const TempFolder folder;
  const auto comparing = [&](std::size_t steps) {
    const fs::path run = folder / std::to_string(steps);
    std::string text;
    for (std::size_t i = 1; i <= steps; ++i) text += step_line(i) + "\n";
    put_text(run / "metrics.jsonl", text);
    RunComparison runs;
    for (const char* label : {"a", "b"})
      runs.groups.push_back(group_of(label, {RunFiles{.folder = run}}));
    return [runs, steps] { CHECK(compare_losses(runs).losses == steps); };
  };
  CHECK(growth_per_doubling(comparing, 500) <= kMostPerDoubling);
}

TEST_CASE("growth: finding the worst predictions is linear in the rows and classes of the file") {
  const auto rows = [](std::size_t count) {
    std::string csv = "index,label,class,class_prob\n";
    for (std::size_t i = 0; i < count; ++i)
      csv += fmt::format("{},1,0,0.{:07}\n", i, i * 7919 % 9973);
    return [csv] { CHECK(worst_predictions(csv, 20).size() == 20); };
  };
  CHECK(growth_per_doubling(rows, 500) <= kMostPerDoubling);
  const auto classes = [](std::size_t count) {
    std::string head = "index,label,class";
    std::string row = "0,1,0";
    for (std::size_t i = 0; i < count; ++i) {
      head += fmt::format(",prob_{}", i);
      row += ",0.5";
    }
    return [csv = head + "\n" + row + "\n"] { CHECK(worst_predictions(csv, 5).size() == 1); };
  };
  CHECK(growth_per_doubling(classes, 500) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a saved bench is linear in its settings and runs") {
  const auto rows = [](std::size_t count) {
    return [text = saved_bench(count, 2)] { (void)read_baseline(text, "saved.json"); };
  };
  CHECK(growth_per_doubling(rows, 20) <= kMostPerDoubling);
  const auto trials = [](std::size_t count) {
    return [text = saved_bench(1, count)] { (void)read_baseline(text, "saved.json"); };
  };
  CHECK(growth_per_doubling(trials, 20) <= kMostPerDoubling);
}

TEST_CASE("growth: writing and reading sweep.json and its page are linear in the runs") {
  const TempFolder folder;
  const auto write = [&](std::size_t runs) {
    const fs::path file = folder / (std::to_string(runs) + ".json");
    if (!fs::exists(file)) put_text(file, to_pretty(sweep_document(sweep_of(runs, runs), 0)));
    return file;
  };
  for (const bool one_setting : {false, true}) {
    const auto writing = [one_setting](std::size_t runs) {
      return [sweep = sweep_of(runs, one_setting ? 1 : runs)] { (void)sweep_document(sweep, 0); };
    };
    CHECK(growth_per_doubling(writing, 200) <= kMostPerDoubling);
  }
  const auto reading = [&](std::size_t runs) {
    return [&folder, file = write(runs)] { (void)swept_runs(read_document(file), folder.path()); };
  };
  CHECK(growth_per_doubling(reading, 50) <= kMostPerDoubling);
  const auto page = [&](std::size_t runs) {
    return [sweep = read_document(write(runs))] { (void)sweep_page(sweep, {}, "sweep"); };
  };
  CHECK(growth_per_doubling(page, 150) <= kMostPerDoubling);
}
