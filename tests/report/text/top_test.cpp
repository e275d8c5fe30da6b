#include "report/text/top.hpp"

#include "report/text/format.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <cmath>

using namespace trainctl;
using namespace trainctl::report;

namespace {

TopView running() {
  TopView view;
  view.run_dir = "runs/mnist/20260102-030405-ab12";
  view.name = "mnist";
  view.host = "node7";
  view.pid = 4242;
  view.since = "2026-01-02T03:04:05Z";
  view.epoch = 2;
  view.max_epochs = 5;
  view.steps_per_epoch = 938;
  view.step = 2345;
  view.steps_per_s = 120.5;
  view.samples_per_s = 7712;
  view.eta_s = 19;
  view.data_wait_share = 0.12;
  view.lr = 0.001;
  view.losses = {2.3, 1.1, 0.7, 0.5};
  view.metrics = {{"train/loss", 0.5}, {"val/accuracy", 0.93}};
  view.ranks = {{0, 4243, "train", 2345, 120.5, 0.01, 99.0, std::uint64_t{400} << 20},
                {1, 4244, "checkpoint", 2345, 118.0, 12.0, 3.0, std::uint64_t{390} << 20}};
  view.gpus = {{0, "NVIDIA H200", 87.0, std::uint64_t{10} << 30, std::uint64_t{140} << 30}};
  view.checkpoint = TopCheckpoint{"epoch=0002-step=001876", 1876, 33};
  view.warnings = {"rank_0: warning: \x1b[2Jslow disk"};
  return view;
}

}  // namespace

TEST_CASE("top: a running job has its ranks, speed, loss and remaining time") {
  const std::string text = top_text(running(), {.width = 100});
  for (const char* part :
       {"running, pid 4242 on node7", "epoch 3/5", "2,345/4,690", "50%", "7,712 samples/s",
        "12% of the time waiting for data", "  about 19", "loss 0.5000", "val/accuracy 0.9300",
        "99%", "checkpoint", "GPU 0  NVIDIA H200  87%", "\\x1b[2Jslow disk"}) {
    CAPTURE(part);
    CHECK_THAT(text, Contains(part));
  }
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("top: the output has at most as many lines as the screen") {
  const std::string text = top_text(running(), {.width = 80}, 5);
  const auto lines = golden::lines_of(text);
  REQUIRE(lines.size() == 5);
  CHECK_THAT(lines.back(), Contains("more lines"));
}

TEST_CASE("top: an ended run shows its result, and a remote run only data from its files") {
  TopView view = running();
  view.state = TopState::ended;
  view.verdict = "diverged";
  view.exit_code = 6;
  view.message = "the loss is not finite";
  const std::string text = top_text(view, {});
  CHECK_THAT(text, Contains("diverged, exit code 6: the loss is not finite"));
  CHECK(text.find("  about ") == std::string::npos);
  view.state = TopState::elsewhere;
  CHECK_THAT(top_text(view, {}), Contains("on another host") && Contains("node7"));
  view.state = TopState::gone;
  CHECK_THAT(top_text(view, {}), Contains("its process has exited"));
}

TEST_CASE("top: a failed run shows the epoch of the failure, counted from 1") {
  TopView view = running();
  view.state = TopState::ended;
  view.exit_code = 6;
  const auto epoch = [&] { return top_json(view)["epoch"].get<int>(); };
  CHECK(epoch() == 3);  // an epoch has 938 steps
  CHECK_THAT(top_text(view, {}), Contains("epoch 3/5"));
  view.step = 1876;
  CHECK(epoch() == 2);
  view.epoch = 0;
  view.step = 0;
  CHECK(epoch() == 1);
  view.step = 12;
  CHECK(epoch() == 1);
  view.epoch = 5;
  view.step = 5 * 938 + 1;
  view.exit_code = 0;
  CHECK(epoch() == 5);
}

TEST_CASE("top: unknown values are a dash in text and null in JSON") {
  const TopView view;
  CHECK_THAT(top_text(view, {}), Contains("- steps/s"));
  const Json document = top_json(view);
  CHECK(document["schema"] == "trainctl.top/2");
  CHECK(document["eta_s"].is_null());
  CHECK(document["max_epochs"].is_null());
  CHECK(document["epoch"] == 1);  // this is the current epoch, as in the text
  CHECK(document["epochs_done"] == 0);
  CHECK(document["checkpoint"].is_null());
  CHECK(document["state"] == "running");
  const Json full = top_json(running());
  CHECK(full["ranks"][1]["phase"] == "checkpoint");
  CHECK(full["checkpoint"]["step"] == 1876);
  CHECK(full["metrics"]["val/accuracy"] == 0.93);
}

TEST_CASE("sparkline: spans its values and marks non-finite ones") {
  const auto line = [](const std::vector<double>& values, const Spark& spark = {}) {
    return sparkline(values, Glyphs::ascii, spark);
  };
  CHECK(line({0, 7}) == "_#");
  CHECK(line({1, 1, 1}) == "___");
  CHECK(line({0, std::nan(""), 1}) == "_!#");
  CHECK(line({}).empty());
  CHECK(line(std::vector<double>(100, 2.0), {.width = 8}) == std::string(8, '_'));
  CHECK(line({0, 2, 0, 2, 8, 8}, {.width = 3}) == "__#");  // neighbors are averaged
}

TEST_CASE("sparkline: values on a common scale can be compared") {
  const Spark spark{.scale = Interval{0, 8}, .gap = ' '};
  const std::vector<double> values{0, 1, 2, 3, 4, 5, 6, 8};
  CHECK(sparkline(values, Glyphs::ascii, spark) == "_.-~=+*#");
  CHECK(sparkline(values, Glyphs::unicode, spark) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline(std::vector<double>{0, std::nan(""), 9}, Glyphs::ascii, spark) == "_ #");
}
