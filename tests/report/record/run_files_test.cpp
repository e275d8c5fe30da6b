#include "report/record/run_files.hpp"

#include "base/error.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/html/html.hpp"
#include "report/html/run_page.hpp"
#include "report/invented.hpp"
#include "report/record/worst_predictions.hpp"
#include "report/sinks/sink.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Writes a run folder with the sinks of a real run.
void write_run(const fs::path& folder) {
  put_text(folder / "config.resolved.yaml",
           "name: digits  # a.yaml:1\nseed: 3\noptimizer:\n  type: adam\n  lr: 0.001\n"
           "metrics:\n  - type: accuracy\nmodel:\n  hidden: [128, 64]\n");
  const auto csv = make_csv_sink(folder, {"train/loss", "val/loss", "val/accuracy"});
  const auto jsonl = make_jsonl_sink(folder);
  for (int i = 0; i < 3; ++i) {
    for (Sink* sink : {csv.get(), jsonl.get()}) {
      sink->on_event(
          0, events::StepLogged{.epoch = i, .global_step = 100 * (i + 1), .loss = 0.5, .lr = 0.1});
      sink->on_event(0, events::TableRow{"val/confusion_matrix", i, 0, {8, 2}});
      sink->on_event(0, events::TableRow{"val/confusion_matrix", i, 1, {1, 9 + i}});
      sink->on_event(0, invented::epoch(i));
    }
  }
}

std::string escaped(const std::string& text) { return Html(text).markup(); }

bool any_contains(const std::vector<std::string>& notes, const std::string& part) {
  for (const std::string& note : notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Returns a line with as many cells as epochs.csv has columns: the first one, then the same cell
/// in all others.
std::string epoch_line(const fs::path& run, const std::string& first, const std::string& others) {
  std::string line;
  std::ifstream file(run / "epochs.csv");
  std::getline(file, line);
  const auto columns = std::ranges::count(line, ',');
  line = first;
  for (auto i = columns; i > 0; --i) line += "," + others;
  return line;
}

}  // namespace

TEST_CASE("read_run: a run folder is read back as written") {
  TempFolder folder;
  write_run(folder.path());
  const RunFiles run = read_run(folder.path());
  CHECK(run.name == "digits");
  REQUIRE(run.epochs.size() == 3);
  CHECK(events::find_metric(run.epochs[1].metrics, "val/loss") == 0.0625);
  REQUIRE(run.steps.lines().size() == 3);
  CHECK(run.steps.lines()[2].global_step == 300);
  CHECK(std::isnan(*run.steps.lines()[2].grad_norm));
  REQUIRE(run.tables.size() == 1);
  CHECK(run.tables[0].epoch == 3);
  CHECK(run.tables[0].counts == std::vector<std::vector<std::int64_t>>{{8, 2}, {1, 11}});
  CHECK(run.value("optimizer.lr") == "0.001");
  CHECK(run.value("metrics.0.type") == "accuracy");
  CHECK(run.value("model.hidden") == "[128, 64]");
  CHECK_FALSE(run.value("optimizer.momentum"));
  CHECK(any_contains(run.notes, "result.json is missing"));
}

TEST_CASE("read_run: damaged lines are reported, and other lines are kept") {
  TempFolder folder;
  write_run(folder.path());
  const std::string damaged = epoch_line(folder.path(), "x", "");
  std::ofstream(folder / "epochs.csv", std::ios::app) << "4,1,2\n" << damaged << "\n";
  {
    std::ofstream(folder / "metrics.jsonl", std::ios::app)
        << "{broken\n{\"type\":\"step\",\"step\":50}\n{\"type\":\"step\",\"epoch\":4,\"step\":400,"
           "\"lr\":\"nan\"}\n{\"type\":\"st";
  }
  put_text(folder / "result.json", std::string(100'000, '['));
  put_text(folder / "manifest.json", "[1]");
  put_text(folder / "ranks.csv", "epoch,rank\n1\n\n,,\n");
  const RunFiles run = read_run(folder.path());
  CHECK(run.epochs.size() == 3);
  CHECK(run.steps.lines().size() == 4);
  CHECK(any_contains(run.notes, "epochs.csv: line 5 has 3 cells instead of "));
  CHECK(any_contains(run.notes, "epochs.csv: line 6 does not start with an epoch number"));
  CHECK(any_contains(run.notes, "metrics.jsonl: line 7 is not a metrics line"));
  CHECK(any_contains(run.notes, "metrics.jsonl: line 8 has step 50 after step 300"));
  CHECK_FALSE(any_contains(run.notes, "line 10"));  // this line is still being written
  CHECK(any_contains(run.notes, "result.json is damaged"));
  CHECK(any_contains(run.notes, "manifest.json is damaged"));
  CHECK(any_contains(run.notes, "ranks.csv: line 2"));
}

TEST_CASE("read_run: many damaged lines give few notes") {
  TempFolder folder;
  write_run(folder.path());
  const std::string line = epoch_line(folder.path(), "4", "bad");
  {
    std::ofstream epochs(folder / "epochs.csv", std::ios::app);
    for (int i = 0; i < 3000; ++i) epochs << line << "\n";
  }
  const RunFiles run = read_run(folder.path());
  CHECK(any_contains(run.notes, "epochs.csv: line 5 has no number in column step"));
  CHECK(any_contains(run.notes, "epochs.csv: 2995 more lines are damaged"));
  CHECK(run.notes.size() < 10);
}

TEST_CASE("read_run: a folder that is not a run folder is an error with a hint") {
  TempFolder folder;
  CHECK_THROWS_WITH(read_run(folder.path()), Contains("is not a run folder"));
  fs::create_directory(folder / "latest");
  CHECK_THROWS_WITH(read_run(folder.path()),
                    Contains("\nhint: use a run folder, such as ") && Contains("latest"));
  CHECK_THROWS_WITH(read_document(folder / "x.json"), Contains("x.json"));
}

TEST_CASE("read_run: folders and links in place of files are ignored") {
  TempFolder folder;
  write_run(folder.path());
  fs::remove(folder / "metrics.jsonl");
  fs::create_directory(folder / "metrics.jsonl");
  fs::create_symlink("/dev/zero", folder / "result.json");
  const RunFiles run = read_run(folder.path());
  CHECK(run.steps.lines().empty());
  CHECK(run.result.is_null());
}

TEST_CASE("StepLines: very many steps are thinned evenly") {
  StepLines steps;
  for (int i = 1; i <= 300'000; ++i) steps.add({.global_step = i});
  CHECK(steps.lines().size() < 50'000);
  CHECK(steps.kept_every() == 8);
  CHECK(steps.lines()[1].global_step - steps.lines()[0].global_step == 8);
}

TEST_CASE("run page: contains curves, numbers and settings, all escaped") {
  TempFolder folder;
  write_run(folder.path());
  put_text(folder / "config.resolved.yaml", "name: \"</script><svg onload=x>\"\n");
  put_text(
      folder / "result.json",
      R"({"verdict":"failed","exit_code":7,"message":"<b>rank 1</b> died","best":{"metric":"val/loss","value":0.0625,"epoch":2},
               "bottleneck":{"verdict":"input_bound","share":0.4,"headroom":1.6,"setting":"a.b=1","gain":{"text":"at most <u> 1.60x"},"advice":"try <i>","evidence":[7,{"text":"data <wait> 4 s"}]},
               "resume_command":"trainctl run --resume x"})");
  const std::string page = run_page(read_run(folder.path()));
  CHECK(page.find("<svg onload") == std::string::npos);
  CHECK(page.find("<b>rank") == std::string::npos);
  CHECK_THAT(page, Contains("failed (exit 7)") && Contains("&lt;b&gt;rank 1&lt;/b&gt; died"));
  CHECK_THAT(page, Contains("input: waiting for batches takes 40 % of the epoch time; gain of the "
                            "proposed setting: at most &lt;u&gt; 1.60x"));
  CHECK_THAT(page, Contains("data &lt;wait&gt; 4 s") && Contains("trainctl run --resume x"));
  CHECK_THAT(page, Contains("<h3>loss</h3>") && Contains("<h3>accuracy</h3>") &&
                       Contains("<h3>Learning rate</h3>"));
  CHECK_THAT(page,
             Contains("Time of each epoch") && Contains("class 0, predicted 1: 2 of 10 (20 %)"));
  CHECK(page.find("Norm of the gradients") == std::string::npos);
}

TEST_CASE("run page: shows the evidence of a verdict and a command to try") {
  TempFolder folder;
  write_run(folder.path());
  const Bottleneck found = find_bottleneck(
      {.wall_s = 10, .data_wait_s = 6, .forward_s = 2, .backward_s = 2, .samples = 1000},
      {.num_workers = 0, .batch_size = 10, .train_samples = 1000, .levers = {.cpu_cores = 16}});
  REQUIRE_FALSE(found.evidence.empty());
  REQUIRE(found.perfect_loader);
  REQUIRE_FALSE(found.setting.empty());
  put_text(folder / "result.json", to_line(Json{{"bottleneck", to_json(found)}}));
  put_text(folder / "manifest.json", R"({"config":"my configs/a.yaml"})");
  const std::string page = run_page(read_run(folder.path()));
  for (const Evidence& one : found.evidence) CHECK_THAT(page, Contains(escaped(one.text)));
  CHECK_THAT(page, Contains(escaped(text_of(*found.perfect_loader))) &&
                       Contains(escaped(found.diagnosis)) && Contains(escaped(found.advice)));
  CHECK_THAT(page, Contains(escaped("trainctl run 'my configs/a.yaml' " + found.setting)));
  CHECK(page.find("replayed_steps") == std::string::npos);
  CHECK(page.find("data_wait_step") == std::string::npos);
}

TEST_CASE("run page: a diagnosis that the advice repeats is shown once") {
  TempFolder folder;
  write_run(folder.path());
  const auto page_with = [&](const std::string& diagnosis) {
    put_text(folder / "result.json", to_line(Json{{"bottleneck",
                                                   {{"verdict", "compute_bound"},
                                                    {"diagnosis", diagnosis},
                                                    {"advice", "the model works: add devices"}}}}));
    return run_page(read_run(folder.path()));
  };
  const std::string same = page_with("the model works");
  CHECK_THAT(same, Contains("the model works: add devices"));
  CHECK(same.find("the model works") == same.rfind("the model works"));
  CHECK_THAT(page_with("the disk waits"),
             Contains("the disk waits") && Contains("the model works: add devices"));
}

TEST_CASE("run page: a folder with only a config has the page of an unfinished run") {
  TempFolder folder;
  put_text(folder / "config.resolved.yaml", "name: young\n");
  CHECK_THAT(run_page(read_run(folder.path())),
             Contains("running, or killed") && Contains("epochs.csv is missing"));
}

TEST_CASE("HtmlSink: the page is written after epochs, at most every 30 s, and at the end") {
  TempFolder folder;
  put_text(folder / "config.resolved.yaml", "name: young\n");
  const auto sink = make_html_sink(folder.path());
  sink->on_tick(0);
  CHECK_FALSE(fs::exists(folder / "report.html"));
  sink->on_event(0, invented::epoch(0));
  sink->on_tick(1);
  CHECK_THAT(golden::read(folder / "report.html"), Contains("<h3>loss</h3>"));
  sink->on_event(0, invented::epoch(1));
  fs::remove(folder / "report.html");
  sink->on_tick(30.5);
  CHECK_FALSE(fs::exists(folder / "report.html"));  // the last page is less than 30 s old
  sink->on_tick(31.5);
  CHECK(fs::exists(folder / "report.html"));
  sink->close();
  put_text(folder / "result.json", R"({"verdict":"ok","exit_code":0})");
  sink->on_end({{"exit_code", 0}});
  CHECK_THAT(golden::read(folder / "report.html"), Contains(">ok</span>"));
  CHECK_FALSE(sink->take_warning());
}

TEST_CASE("HtmlSink: classes have their names, or numbers if there are none") {
  const auto page_with = [](const std::vector<std::string>& names) {
    TempFolder folder;
    put_text(folder / "config.resolved.yaml", "name: young\n");
    const auto sink = make_html_sink(folder.path(), names);
    sink->on_event(0, events::TableRow{"val/confusion_matrix", 0, 0, {8, 2}});
    sink->on_event(0, events::TableRow{"val/confusion_matrix", 0, 1, {1, 9}});
    sink->on_event(0, invented::epoch(0));
    sink->on_end({{"exit_code", 0}});
    return golden::read(folder / "report.html");
  };
  CHECK_THAT(page_with({"owl", "crow"}), Contains("class owl, predicted crow: 2 of 10 (20 %)"));
  CHECK_THAT(page_with({}), Contains("class 0, predicted 1: 2 of 10 (20 %)"));
}

TEST_CASE("HtmlSink: a page that cannot be written is reported once and does not end the run") {
  TempFolder folder;
  put_text(folder / "config.resolved.yaml", "name: young\n");
  fs::create_directory(folder / "report.html");
  const auto sink = make_html_sink(folder.path());
  sink->on_event(0, invented::epoch(0));
  CHECK_NOTHROW(sink->on_tick(1));
  CHECK_THAT(sink->take_warning().value_or(""), Contains("cannot write report.html"));
  CHECK_NOTHROW(sink->on_end({{"exit_code", 0}}));
  CHECK_FALSE(sink->take_warning());
}

TEST_CASE("worst_predictions: sorted by loss, or wrong predictions by probability") {
  const auto worst = worst_predictions(
      "index,name,label,class,class_prob,prob_0,prob_1\n0,a,0,0,0.9,0.9,0.1\n1,b,0,1,0.99,0.01,0."
      "99\n"
      "2,\"c,d\",1,0,0.7,0.7,0.3\nbroken\n",
      2);
  REQUIRE(worst.size() == 2);
  CHECK(worst[0].index == 1);
  CHECK(worst[0].loss == Approx(-std::log(0.01)));
  CHECK(worst[1].name == "c,d");
  const auto by_class =
      worst_predictions("index,label,class,class_prob\n0,1,1,0.9\n1,1,0,0.6\n2,0,1,0.8\n", 5);
  REQUIRE(by_class.size() == 2);
  CHECK(by_class[0].index == 2);
  CHECK_FALSE(by_class[0].loss);
  CHECK_THROWS_WITH(worst_predictions("index,class\n0,1\n", 5), Contains("must have the columns"));
}
