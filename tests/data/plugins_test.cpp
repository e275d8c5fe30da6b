#include "spec/plugins.hpp"

#include "base/files.hpp"
#include "config/schema/describe.hpp"
#include "data/core/registry.hpp"
#include "spec/checks/checks.hpp"
#include "spec/compatibility.hpp"
#include "spec/load.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

namespace fs = std::filesystem;

fs::path fake(const std::string& name) {
  return fs::path(TRAINCTL_FAKE_PLUGINS) / ("libfake_" + name + ".so");
}

/// Isolates tests from the plug-ins of other tests.
struct PluginReset {
  ~PluginReset() {
    spec::use_plugins({});
    ::unsetenv("TRAINCTL_PLUGIN_PATH");
  }
};

std::string experiment(const std::string& plugin, const std::string& model) {
  return "plugins: [" + plugin + "]\ndataset: {train: {type: fake_ring, points: 5}}\n" +
         "model: " + model + "\noptimizer: sgd\nloader: {batch_size: 1}\n";
}

spec::Loaded load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("test.yaml", text, overrides, diagnostics);
}

std::string message_of(const std::string& text) {
  try {
    load(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  FAIL("the experiment was accepted");
  return {};
}

std::string load_error(const fs::path& library) {
  try {
    spec::PluginSet set;
    set.add(spec::open_plugin(library));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  FAIL("the library was accepted");
  return {};
}

}  // namespace

TEST_CASE("plug-ins: stages of a plug-in are checked and printed like the built-in ones") {
  const PluginReset reset;
  const spec::Loaded loaded =
      load(experiment(fake("good").string(), "fake_net"), {"model.width=16"});
  CHECK(loaded.experiment.model.type == "fake_net");
  REQUIRE(loaded.experiment.plugins.size() == 1);
  CHECK_THAT(spec::dump_resolved(loaded), Contains("width: 16") && Contains("points: 5"));
  CHECK_NOTHROW(load(spec::dump_resolved(loaded)));

  const std::string wrong =
      message_of(experiment(fake("good").string(), "{type: fake_net, widht: 3, width: 0}"));
  CHECK_THAT(wrong, Contains("test.yaml:3:25: error: unknown key 'widht' in model 'fake_net'"));
  CHECK_THAT(wrong, Contains("did you mean 'width'?"));
  CHECK_THAT(wrong, Contains("'width' must be at least 1"));
}

TEST_CASE("plug-ins: a plug-in is used only for the experiment that names it") {
  const PluginReset reset;
  const std::string text = experiment(fake("good").string(), "fake_net");
  load(text);
  CHECK(data::catalog_in_use().facts.contains("fake_ring"));
  const std::string without = text.substr(text.find('\n') + 1);
  CHECK_THAT(message_of(without), Contains("unknown dataset 'fake_ring'"));
  CHECK_FALSE(data::catalog_in_use().facts.contains("fake_ring"));
  CHECK_NOTHROW(load(without, {"+plugins=[" + fake("good").string() + "]"}));
  CHECK_NOTHROW(load(text, {"plugins=[" + fake("good").string() + "]"}));
}

TEST_CASE("plug-ins: a loss states its targets, and a metric that does not takes classes") {
  const PluginReset reset;
  const std::string text = experiment(fake("good").string(), "fake_net");
  const auto takes = [&](const char* loss, spec::Targets targets) {
    const spec::Loaded loaded = load(text + "loss: " + loss + "\nmetrics: [fake_metric]\n");
    CHECK(spec::takes(loaded.experiment.metrics.at(0), spec::Targets::classes));
    CHECK_FALSE(spec::takes(loaded.experiment.metrics.at(0), spec::Targets::numbers));
    CHECK_FALSE(spec::takes(loaded.experiment.model, spec::Inputs::tokens));
    return spec::takes(loaded.experiment.loss, targets);
  };
  CHECK(takes("fake_loss", spec::Targets::numbers));
  CHECK_FALSE(takes("fake_loss", spec::Targets::classes));
  CHECK_FALSE(takes("fake_loss", spec::Targets::tokens));
  CHECK(takes("{type: fake_loss, tokens: true}", spec::Targets::tokens));
  CHECK_FALSE(takes("cross_entropy", spec::Targets::numbers));
}

TEST_CASE("plug-ins: a loss may take yes/no answers and mixed labels") {
  const PluginReset reset;
  const std::string text =
      experiment(fake("good").string(), "fake_net") + "metrics: [fake_metric]\n";
  const std::string mixing = "+dataset.train.batch_transforms=[mixup]";
  const spec::Loaded own = load(text + "loss: fake_loss\n", {mixing});
  CHECK(spec::takes(own.experiment.loss, spec::Answers{}));
  CHECK(spec::takes(own.experiment.loss, spec::MixedLabels{}));
  CHECK_FALSE(spec::takes(own.experiment.metrics.at(0), spec::Answers{}));
  const config::Stage builtin = load(text + "loss: mse\n").experiment.loss;
  CHECK_FALSE(spec::takes(builtin, spec::Answers{}));
  CHECK_FALSE(spec::takes(builtin, spec::MixedLabels{}));
  CHECK_THROWS_WITH(load(text + "loss: mse\n", {mixing}),
                    Contains("does not take the mixed labels"));
}

TEST_CASE("plug-ins: accuracy and auroc accept a loss of numbers") {
  const PluginReset reset;
  const std::string text = experiment(fake("good").string(), "fake_net");
  const spec::SplitFacts numbers{
      .samples = 1000, .kind = spec::SampleKind{spec::Inputs::numbers, spec::Targets::numbers}};
  const auto problems = [&](const std::string& stages) {
    config::Diagnostics diagnostics;
    spec::check_against_data(load(text + stages), numbers, diagnostics);
    return diagnostics.render();
  };
  CHECK(problems("loss: fake_loss\nmetrics: [accuracy, auroc]\n").empty());
  CHECK_THAT(problems("loss: fake_loss\nmetrics: [top_k_accuracy]\n"),
             Contains("the metric 'top_k_accuracy' takes classes"));
  CHECK_THAT(problems("loss: fake_loss\nmetrics: [fake_metric]\n"),
             Contains("the metric 'fake_metric' takes classes"));
}

TEST_CASE("plug-ins: option types of the same name in two plug-ins are kept apart") {
  const PluginReset reset;
  const std::string both = fake("namesake_numbers").string() + ", " +
                           fake("namesake_tokens").string() + ", " + fake("good").string();
  for (const char* name : {"fake_numbers", "fake_tokens"}) {
    const spec::Loaded loaded = load(experiment(both, "fake_net") + "loss: " + name + "\n");
    const bool is_for_numbers = std::string(name) == "fake_numbers";
    CHECK(spec::takes(loaded.experiment.loss, spec::Targets::numbers) == is_for_numbers);
    CHECK(spec::takes(loaded.experiment.loss, spec::Targets::tokens) != is_for_numbers);
  }
}

TEST_CASE("plug-ins: a plug-in cannot replace a built-in data set") {
  const PluginReset reset;
  load(experiment(fake("good").string(), "fake_net"));
  const config::Stage digits = config::make_stage("dataset", "mnist", spec::dataset::Mnist{});
  try {
    data::catalog_in_use().facts.at("mnist")(digits);
  } catch (const Error& error) {
    CHECK_THAT(error.what(), !Contains("took the place"));
  }
}

TEST_CASE("plug-ins: libraries are searched in the folders of TRAINCTL_PLUGIN_PATH") {
  const PluginReset reset;
  const std::string text = experiment("libfake_good.so", "fake_net");
  CHECK_THAT(message_of(text),
             Contains("does not exist, neither as a path") && Contains("TRAINCTL_PLUGIN_PATH"));
  ::setenv("TRAINCTL_PLUGIN_PATH", (std::string("/nowhere::") + TRAINCTL_FAKE_PLUGINS).c_str(), 1);
  CHECK(load(text).experiment.plugins.at(0) == fake("good"));
}

TEST_CASE("plug-ins: a missing library is an error at the line that names it") {
  const PluginReset reset;
  const std::string message = message_of(experiment("/nowhere/libgone.so", "mlp"));
  CHECK_THAT(message,
             StartsWith("test.yaml:1:11: error: plug-in '/nowhere/libgone.so' does not exist"));
}

TEST_CASE("plug-ins: a file that is not a library is an error with its name") {
  const TempFolder folder;
  std::ofstream(folder / "empty.so").flush();
  std::ofstream(folder / "text.so") << std::string(4096, 'x');
  std::ofstream(folder / "cut.so")
      << read_file(fake("good"), 1 << 30, ReadFailure::config).substr(0, 200);
  for (const char* name : {"empty.so", "text.so", "cut.so"}) {
    CAPTURE(name);
    CHECK_THAT(load_error(folder / name), Contains(name) && Contains("cannot load "));
  }
  CHECK_THAT(load_error(folder.path()), Contains("does not exist, neither as a path"));
  CHECK_THAT(load_error(fake("nothing")), Contains("does not export 'trainctl_plugin'"));
}

TEST_CASE("plug-ins: a library of another build is rejected before it runs") {
  const std::string abi = load_error(fake("other_abi"));
  CHECK_THAT(abi, Contains("was built for 'trainctl 0.0.1, headers of old'"));
  CHECK_THAT(abi, Contains(TRAINCTL_PLUGIN_ABI) && Contains("rebuild the plug-in"));
  CHECK_THAT(load_error(fake("other_layout")), Contains("version 99 of the plug-in interface"));
  CHECK_THAT(load_error(fake("no_abi")), Contains("was built for ''"));
  CHECK_THAT(load_error(fake("no_engine")), Contains("needs 'libgone.so' in the same folder"));
}

TEST_CASE("plug-ins: duplicate names and unsupported kinds of stages are errors") {
  CHECK_THAT(load_error(fake("twice")), Contains("the model 'mlp' already exists"));
  CHECK_THAT(load_error(fake("twice_itself")), Contains("the model 'fake_first' is defined twice"));
  CHECK_THAT(load_error(fake("wrong_kind")), Contains("the layer 'fake_layer'"));

  spec::PluginSet set;
  CHECK_THROWS_AS(set.add(spec::load_plugin(fake("twice"))), Error);
  CHECK(set.plugins().empty());
  CHECK(set.vocabulary().find("model", "fake_first") == nullptr);
  set.add(spec::load_plugin(fake("good")));
  set.add(spec::load_plugin(fake("good")));  // a duplicate is ignored
  CHECK(set.plugins().size() == 1);
}
