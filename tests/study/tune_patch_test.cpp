#include "report/search/tune.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <string>

using namespace trainctl;
using report::Speedup;

namespace {

constexpr const char* kBase =
    "dataset: { train: { type: synthetic_digits }, cache: { mode: none } }\n"
    "loader: { batch_size: 32, num_workers: 0 }\n"
    "model: { type: linear }\n"
    "optimizer: { type: sgd, lr: 0.1 }\n";

Speedup gain(double value) {
  return {.value = value, .ci95 = report::Interval{value - 0.1, value + 0.1}, .pairs = 5};
}

report::TuneReport found() {
  report::TuneReport report;
  report.config = "base.yaml";
  report.before = {
      .name = "input_bound", .share = 0.6, .headroom = 2.5, .advice = "try it", .setting = ""};
  report.after = report.before;
  report.patch = {
      {{"loader.num_workers", "0", "2"}, gain(1.5), "the steps wait for batches"},
      {{"dataset.cache.mode", "none", "decoded"}, gain(1.3), "samples: kept # not read again"}};
  report.tried = {{report.patch[0].change, "the steps wait", report::TuneDecision::accepted,
                   gain(1.5), "same", "the interval lies above 1"},
                  {{"trainer.num_threads", "2", "1"},
                   "a core that does not compute can load",
                   report::TuneDecision::unclear,
                   gain(1.05),
                   "within 1e-06",
                   "too noisy"}};
  report.untried = {{"trainer.precision", "", "--allow precision"},
                    {"trainer.cuda_graphs", "true", "the run is on a CPU"}};
  report.gain = gain(1.9);
  report.budget_s = 300;
  report.used_s = 200;
  report.ended = "nothing is left to try";
  return report;
}

report::TuneCommands commands() {
  return {"trainctl run base.yaml loader.num_workers=2", "trainctl bench base.yaml --grid a=0,2"};
}

spec::Experiment extended_by(const TempFolder& folder, const std::string& patch) {
  std::ofstream(folder / "base.yaml") << kBase;
  std::ofstream(folder / "tuned.patch.yaml") << patch;
  std::ofstream(folder / "mine.yaml") << "extends: [base.yaml, tuned.patch.yaml]\nname: mine\n";
  config::Diagnostics diagnostics;
  return spec::load_experiment(folder / "mine.yaml", {}, diagnostics).experiment;
}

}  // namespace

TEST_CASE("patch_text: a file that other experiments extend") {
  TempFolder folder;
  const std::string text = report::patch_text(found(), commands());
  const spec::Experiment experiment = extended_by(folder, text);
  CHECK(experiment.loader.num_workers.value == 2);
  CHECK(experiment.loader.batch_size == 32);
  CHECK(experiment.dataset.cache.mode == spec::CacheMode::decoded);
  CHECK_THAT(text, Contains("1.90x [1.80, 2.00]") && Contains("was none; 1.30x") &&
                       Contains("input: waiting for batches takes 60 % of the epoch time") &&
                       Contains("trainctl bench base.yaml"));
}

TEST_CASE("patch_text: an empty patch can be extended and changes nothing") {
  TempFolder folder;
  report::TuneReport nothing = found();
  nothing.patch.clear();
  nothing.gain.reset();
  nothing.ended = "nothing to fix";
  const std::string text = report::patch_text(nothing, {});
  CHECK(extended_by(folder, text).loader.num_workers.value == 0);
  CHECK_THAT(text, Contains("Nothing: nothing to fix."));
}

TEST_CASE("patch_text: names from the config stay inside comments") {
  TempFolder folder;
  report::TuneReport report = found();
  report.config = "a\nloader: { num_workers: 9 }\n#.yaml";
  report.patch[0].reason = "x\ny: 1";
  CHECK(extended_by(folder, report::patch_text(report, commands())).loader.num_workers.value == 2);
}

TEST_CASE("tune document: contains the trials, the patch and its gain") {
  const Json document = report::tune_document(found(), commands());
  CHECK(document["schema"] == "trainctl.tune/2");
  CHECK(document["verdict"]["verdict"] == "input_bound");
  CHECK(document["patch"]["loader.num_workers"] == "2");
  CHECK(document["gain"]["value"] == 1.9);
  REQUIRE(document["tried"].size() == 2);
  CHECK(document["tried"][0]["accepted"] == true);
  CHECK(document["tried"][1]["accepted"] == false);
  CHECK(document["tried"][1]["ruling"] == "unclear");
  CHECK(document["tried"][1]["ci95"].size() == 2);
  CHECK(document["untried"][0]["value"].is_null());
  CHECK(document["budget"]["used_s"] == 200);
  CHECK(document["undecided"].is_null());
  report::TuneReport unproved = found();
  unproved.gain.reset();
  unproved.undecided = report::TuneUndecided{{"a=1"}, {"b=2"}, true, 90};
  CHECK(report::tune_document(unproved, {})["undecided"]["changes"] == Json::array({"a=1"}));
  CHECK(report::tune_document(unproved, {})["undecided"]["untested"] == Json::array({"b=2"}));
  CHECK(report::tune_document(unproved, {})["undecided"]["more_s"] == 90);
  CHECK(report::tune_document(unproved, {})["gain"].is_null());
  CHECK(report::tune_document(unproved, {})["run_command"].is_null());
}

TEST_CASE("tune_text: shows verdict, patch, final comparison and the next commands") {
  const report::Style style{
      .glyphs = report::Glyphs::ascii, .colors = report::Colors::off, .width = 200};
  const std::string text = report::tune_text(found(), commands(), style);
  CHECK_THAT(text, Contains("loader.num_workers=2") && Contains("1.50x [1.40, 1.60]") &&
                       Contains("Not tried: trainer.precision: --allow precision") &&
                       Contains("Not tried: trainer.cuda_graphs=true: the run is on a CPU") &&
                       Contains("1.90x [1.80, 2.00] the original speed") &&
                       Contains("trainctl run base.yaml"));
  report::TuneReport unproved = found();
  unproved.gain.reset();
  CHECK_THAT(report::tune_text(unproved, {}, style), Contains("not compared with the original"));
  report::TuneReport nothing;
  nothing.end = report::TuneStopReason::nothing_to_fix;
  CHECK_THAT(report::tune_text(nothing, {}, style), Contains("nothing to fix"));
}

TEST_CASE("gain_text: shows gains without runs or without an interval") {
  CHECK(report::gain_text({}) == "-");
  CHECK(report::gain_text({.value = 1.5, .ci95 = {}, .pairs = 1}) == "1.50x");
}

TEST_CASE("more_time_text: minutes are rounded up, and long times are hours") {
  CHECK(report::more_time_text(0) == "about 1 more minute");
  CHECK(report::more_time_text(61) == "about 2 more minutes");
  CHECK(report::more_time_text(7200) == "about 2 more hours");
}
