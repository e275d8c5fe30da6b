#include "report/sinks/sink.hpp"
#include "report/text/run_summary.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

events::WeightsSet fine_tuned() {
  return {.path = "zoo/resnet18.pth",
          .format = "torch",
          .loaded = {"conv1.weight", "bn1.weight"},
          .reinitialized = {"fc.weight", "fc.bias"},
          .missing = {},
          .ignored = {"a", "b", "c", "d", "e", "f", "g\x1b", "h"},
          .frozen = {"conv1.weight"},
          .notes = {"its 'state_dict' was taken"}};
}

}  // namespace

TEST_CASE("weights_lines: initial weights are listed and long lists are shortened") {
  CHECK(weights_lines(fine_tuned()) ==
        std::vector<std::string>{
            "weights: 2 of 4 tensors of the model come from zoo/resnet18.pth",
            "initialized again, because the number of outputs differs: fc.weight, fc.bias",
            "not in the model, ignored: a, b, c, d, e, f and 2 more",
            "1 parameters frozen: conv1.weight", "its 'state_dict' was taken"});
  CHECK(weights_lines({.frozen = {"fc.bias"}}) ==
        std::vector<std::string>{"weights: initialized from the seed",
                                 "1 parameters frozen: fc.bias"});
}

TEST_CASE("weights_document: contains all loaded, ignored and frozen tensors") {
  const Json document = weights_document(fine_tuned());
  CHECK(document["path"] == "zoo/resnet18.pth");
  CHECK(document["ignored"].size() == 8);
  CHECK(document["frozen"] == Json{"conv1.weight"});
  CHECK(weights_document({.frozen = {"a"}})["path"].is_null());
}

TEST_CASE("ConsoleSink: initial weights are printed as messages before the table") {
  std::string out;
  std::string err;
  const auto sink = make_console_sink({.results = [&](std::string_view text) { out += text; },
                                       .messages = [&](std::string_view text) { err += text; },
                                       .results_style = {},
                                       .messages_style = {},
                                       .progress = ProgressMode::none,
                                       .metrics = {}});
  sink->on_event(0, fine_tuned());
  CHECK(out.empty());
  CHECK_THAT(
      err,
      Contains("weights: 2 of 4 tensors") &&
          Contains("\n  initialized again, because the number of outputs differs: fc.weight, "));
}
